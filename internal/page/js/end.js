const sgclaw = (method, arg) => {
  if (doc !== document) return { missing: true };
  if (arg.token && arg.token !== token) return { gone: true };
  return handlers[method](arg);
};
sgclaw.doc = doc;
sgclaw.token = token;
globalThis.sgclaw = sgclaw;
return token;
