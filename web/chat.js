// The chat page: asks /v1/chat/completions, shows the answer as it comes, and can stop it.
import { events } from './events.js';

const at = (id) => document.getElementById(id);
const conversation = [];
let running = null;  // the AbortController of the answer that is being written

function headers() {
  const key = at('key').value;
  return { 'Content-Type': 'application/json', ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

function addMessage(kind, text = '') {
  const element = document.createElement('div');
  element.className = `message ${kind}`;
  element.textContent = text;
  at('messages').append(element);
  at('messages').scrollTop = at('messages').scrollHeight;
  return element;
}

// Text with fenced code in blocks of its own. Everything goes in as text: nothing that a model says becomes HTML.
function show(element, { reasoning, content }) {
  element.replaceChildren();
  if (reasoning) {
    const thought = document.createElement('div');
    thought.className = 'reasoning';
    thought.textContent = reasoning;
    element.append(thought);
  }
  content.split(/^```[^\n]*\n?/m).forEach((part, index) => {
    if (index % 2 === 0) return element.append(part);
    const block = document.createElement('pre');
    block.textContent = part.replace(/\n$/, '');
    element.append(block);
  });
}

function facts(timings, stopped) {
  if (!timings) return stopped ? 'stopped' : '';
  const words = [`${timings.predicted_n} tokens`, `${timings.predicted_per_second.toFixed(1)} tokens/s`];
  if (timings.draft_n > 0) words.push(`${timings.draft_n_accepted} of ${timings.draft_n} guesses right`);
  return words.join(' · ');
}

async function* answer(messages, signal) {
  const response = await fetch('v1/chat/completions', {
    method: 'POST',
    headers: headers(),
    signal,
    body: JSON.stringify({
      messages,
      stream: true,
      temperature: Number(at('temperature').value),
      max_tokens: Number(at('tokens').value),
    }),
  });
  if (response.status === 401) at('key-label').hidden = false;
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    throw new Error(body?.error?.message ?? `the server said ${response.status}`);
  }
  for await (const data of events(response.body)) {
    if (data === '[DONE]') return;
    yield JSON.parse(data);
  }
}

function setRunning(controller) {
  running = controller;
  at('send').hidden = controller !== null;
  at('stop').hidden = controller === null;
}

async function ask(question) {
  conversation.push({ role: 'user', content: question });
  addMessage('user', question);
  const element = addMessage('assistant');
  const said = { reasoning: '', content: '' };
  const controller = new AbortController();
  setRunning(controller);
  const begin = performance.now();
  let timings = null, count = 0;
  try {
    for await (const chunk of answer(conversation, controller.signal)) {
      const delta = chunk.choices[0]?.delta ?? {};
      said.content += delta.content ?? '';
      said.reasoning += delta.reasoning_content ?? '';
      timings = chunk.timings ?? timings;
      count += 1;
      at('status').textContent = `${(count / ((performance.now() - begin) / 1000)).toFixed(1)} pieces/s`;
      const messages = at('messages');
      const follows = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 40;
      show(element, said);
      if (follows) messages.scrollTop = messages.scrollHeight;
    }
  } catch (failure) {
    if (failure.name !== 'AbortError') addMessage('error', failure.message);
  }
  at('status').textContent = '';
  const line = document.createElement('div');
  line.className = 'facts';
  line.textContent = facts(timings, controller.signal.aborted);
  element.append(line);
  if (said.content) conversation.push({ role: 'assistant', content: said.content });
  else conversation.pop();
  setRunning(null);
}

at('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const question = at('question').value.trim();
  if (!question || running) return;
  at('question').value = '';
  ask(question);
});
at('question').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  at('ask').requestSubmit();
});
at('stop').addEventListener('click', () => running?.abort());
at('clear').addEventListener('click', () => {
  running?.abort();
  conversation.length = 0;
  at('messages').replaceChildren();
});

fetch('v1/models', { headers: headers() })
  .then((response) => {
    if (response.status === 401) at('key-label').hidden = false;
    return response.json();
  })
  .then((list) => { at('model').textContent = list.data?.[0]?.id ?? ''; })
  .catch(() => { at('status').textContent = 'the server does not answer'; });
