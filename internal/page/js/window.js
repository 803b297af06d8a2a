// The functions of seed 001 §4.1 for the document of a Window. It runs in
// every document of that tab before the document's own scripts. BINDING is
// the name of the host's binding, BASE the beginning of the addresses whose
// documents get functions.
(() => {
  const binding = window[BINDING];
  delete window[BINDING];
  if (window !== window.top || typeof binding !== 'function' || !location.href.startsWith(BASE)) return;
  const MAX_BYTES = 256 * 1024;
  const MAX_OPEN = 64;
  const {stringify} = JSON;
  const send = (message) => binding(stringify(message));
  const waiting = new Map();
  let last = 0;

  const settle = (id, response) => {
    const callback = waiting.get(id);
    waiting.delete(id);
    if (callback) callback(response);
  };
  // The host reaches this document's callbacks by the same name.
  Object.defineProperty(window, BINDING, {value: settle});

  Object.defineProperty(window, 'sgFunctionsUI', {
    enumerable: true,
    value: (name, params, callback) => {
      const id = ++last;
      waiting.set(id, typeof callback === 'function' ? callback : undefined);
      const refuse = (error, code) => queueMicrotask(() => settle(id, {success: false, error, code}));
      if (waiting.size > MAX_OPEN) {
        refuse('too many calls are under way', 'TOO_MANY');
        return;
      }
      try {
        const text = stringify(params === undefined || params === null ? {} : params);
        if (typeof text !== 'string' || text.length > MAX_BYTES) {
          refuse('the parameters are too large', 'TOO_LONG');
          return;
        }
        binding(`{"id":${id},"name":${stringify(String(name).slice(0, 100))},"params":${text}}`);
      } catch (e) {
        refuse(`the parameters cannot be sent: ${e}`, 'INVALID_PARAMS');
      }
    },
  });

  // The document is ready for events once it has said who takes them.
  let events;
  Object.defineProperty(window, 'sgClawEvents', {
    enumerable: true,
    get: () => events,
    set: (value) => {
      const first = events === undefined;
      events = value;
      // Later, so that handlers may be added to an object that was empty.
      if (first && value) setTimeout(() => send({ready: true}), 0);
    },
  });
})();
