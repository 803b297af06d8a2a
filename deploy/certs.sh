#!/bin/sh
# Makes the certificates that deploy/docker-compose.tls.yml uses, with an
# authority of their own. Needs openssl.
#
#   certs.sh server NAME...   the server's, for the names by which it is reached
#   certs.sh client NAME      one for a worker, an operator or a desk
#
# They are put into the folder tls beside this script, or into $DIR. The
# authority's own key is in tls-ca, or $CA: who has it can make further
# certificates, so take it away from the server.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${DIR:-$here/tls}
ca=${CA:-$here/tls-ca}
days=${DAYS:-825}
umask 077
mkdir -p "$dir" "$ca"
chmod 755 "$dir"

usage() {
  sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

if [ ! -f "$dir/ca.pem" ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256 -days 3650 \
    -subj "/CN=sgclaw Temporal CA" -keyout "$ca/ca.key" -out "$dir/ca.pem" 2>/dev/null
  chmod 644 "$dir/ca.pem"
fi

# issue FOLDER SUBJECT EXTENSIONS OWNER: the images' users are numbers here,
# and must be able to read their keys.
issue() {
  mkdir -p "$dir/$1"
  chmod 711 "$dir/$1"
  printf '%s\n' "$3" > "$dir/$1/ext"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256 \
    -subj "/CN=$2" -keyout "$dir/$1/key.pem" -out "$dir/$1/csr" 2>/dev/null
  openssl x509 -req -in "$dir/$1/csr" -CA "$dir/ca.pem" -CAkey "$ca/ca.key" -CAserial "$ca/serial" -CAcreateserial \
    -sha256 -days "$days" -extfile "$dir/$1/ext" -out "$dir/$1/cert.pem" 2>/dev/null
  rm "$dir/$1/csr" "$dir/$1/ext"
  chmod 644 "$dir/$1/cert.pem"
  if [ "$(id -u)" -eq 0 ]; then
    chown "$4" "$dir/$1/key.pem"
  fi
  echo "$dir/$1: cert.pem, key.pem"
}

case "${1:-}" in
  server)
    shift
    names="DNS:temporal,DNS:localhost,IP:127.0.0.1"
    for n in "$@"; do
      case "$n" in
        *[!0-9.]*) names="$names,DNS:$n" ;;
        *) names="$names,IP:$n" ;;
      esac
    done
    # Its parts are each other's clients.
    issue server temporal "subjectAltName=$names
extendedKeyUsage=serverAuth,clientAuth" 1000
    ;;
  client)
    [ $# -eq 2 ] || usage
    owner=0
    case "$2" in
      worker) owner=65534 ;;   # nobody, in our image
      operator) owner=1000 ;;  # temporal, in Temporal's images
    esac
    issue "$2" "$2" "extendedKeyUsage=clientAuth" "$owner"
    ;;
  *) usage ;;
esac
