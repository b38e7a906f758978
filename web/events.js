// The data of server-sent events, from a stream of bytes that comes in any pieces.
export async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    let end;
    while ((end = held.indexOf('\n\n')) >= 0) {
      const event = held.slice(0, end);
      held = held.slice(end + 2);
      const lines = event.split('\n').filter((line) => line.startsWith('data:'));
      if (lines.length > 0) yield lines.map((line) => line.slice(5).replace(/^ /, '')).join('\n');
    }
  }
}
