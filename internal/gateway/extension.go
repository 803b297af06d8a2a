package gateway

// ExtensionOrigin is the origin of the side panel that is loaded as an
// extension (panel/extension): its id comes from the key in its manifest and
// is the same on every machine. It may always connect, with a token like
// anybody else; no web page can claim it.
const ExtensionOrigin = "chrome-extension://enikjdaafpajpbbbdlbkhnmhnegijpmn"
