/**
 * A new random id, 128 bits. crypto.randomUUID is there only where the page
 * came over TLS or from this machine.
 */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')
}
