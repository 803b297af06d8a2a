# The server side's binaries: worker, gateway with the panel in it, and
# starter for operators.
FROM node:22-bookworm-slim AS panel
WORKDIR /src/panel
COPY panel/package.json panel/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY panel ./
RUN npm run build

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
COPY --from=panel /src/panel/dist ./panel/dist
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-X sgclaw/internal/build.stamp=${VERSION}" -o /out/ ./worker ./gateway ./starter

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/ /usr/local/bin/
USER nobody
CMD ["worker"]
