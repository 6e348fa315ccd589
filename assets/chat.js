// The Chat tab: turns of a conversation, each answer a lane coloured by source, with a readout of what it gained.
import { Fields } from "./fields.js";
import { count, make, plural, ratio, seconds, speed } from "./format.js";
import { Lane } from "./lane.js";
import { Legend } from "./legend.js";

const BODY = `
<p class="key" data-id="key" hidden>Tinted words were guessed ahead and confirmed by the model; the colour says who guessed. Untinted ones the model wrote itself.</p>
<div class="legend" data-id="legend" role="group" aria-label="Colours by source"></div>
<div class="talk" data-id="talk" role="log" aria-label="Conversation" aria-live="off"></div>
<p class="hero-hint" data-id="hint">Every answer is decoded with guesses and coloured by who guessed. The whole conversation feeds the dictionaries, so later turns find more to copy, and what was read for one turn stays in the cache for the next.</p>
<footer class="end"><span data-id="rate"></span><span class="actions"><button type="button" class="quiet" data-id="renew">Measure plain decoding again</button><button type="button" class="quiet" data-id="race" hidden>Race the last turn</button><button type="button" class="quiet" data-id="back" hidden>Edit the last message</button><button type="button" class="quiet" data-id="clear" hidden>New conversation</button></span></footer>
<p class="unseen" role="status" data-id="status"></p>`;

export function mount({ element, props, watch, facts, ask }) {
  const chat = new Chat(element.querySelector(".stage"), facts, ask);
  watch("value", () => chat.take(JSON.parse(props.value)));
  element.chat = chat;
}

class Chat {
  constructor(stage, facts, ask) {
    Object.assign(this, { stage, facts, ask });
    stage.innerHTML = BODY;
    const found = new Map([...stage.querySelectorAll("[data-id]")].map((node) => [node.dataset.id, node]));
    this.at = (id) => found.get(id);
    this.fields = new Fields(document.getElementById("chat-ask"), "chat-");
    this.legend = new Legend(this.at("legend"), stage, facts.legend, () => {});
    this.at("renew").addEventListener("click", () => (this.say("Measuring plain decoding"), ask("renew")));
    this.at("race").addEventListener("click", () => ask("race"));
    this.at("back").addEventListener("click", () => this.state !== "running" && ask("back"));
    this.at("clear").addEventListener("click", () => ask("clear"));
    document.getElementById("chat-go").addEventListener("click", () => this.fields.clear());
    this.fields.tell(facts.examples);
    this.clear();
    this.showRate(facts);
  }

  clear() {
    Object.assign(this, { turns: [], given: new Map(), run: null });
    this.stage.dataset.state = this.state = "empty";
    delete this.stage.dataset.run;
    this.at("talk").replaceChildren();
    this.at("hint").hidden = false;
    this.at("key").hidden = true;
    for (const id of ["race", "back", "clear"]) this.at(id).hidden = true;
    this.at("renew").hidden = this.at("legend").hidden = Boolean(this.facts.note);
    if (this.facts.note) this.at("hint").textContent = this.facts.note;
    this.legend.show(null);
  }

  take(message) {
    const { kind } = message;
    if (kind === "refused") return this.fields.refuse(message.field, message.text);
    if (kind === "clear") return (this.gone = this.run), this.clear();
    if (this.gone && (message.run ?? message.begin?.run) === this.gone) return; // it was on its way
    if (kind === "back") return this.back(message.turn);
    if (kind === "waiting") return this.say(`Waiting for the model: ${plural(message.ahead, "visitor")} before you.`);
    if (kind === "left") return this.say("");
    if (kind === "rate") return this.showRate(message);
    if (kind === "measuring" || kind === "measured") return this.measure(message);
    if (kind === "begin") return this.begin(message);
    if (kind === "snapshot") {
      this.begin({ ...message.begin, turn: message.turn });
      this.delta(message);
      return message.end && this.end({ ...message.end, readout: message.readout });
    }
    const lane = this.turns.at(-1)?.lane;
    const held = lane?.steps.length ?? 0;
    if (message.run !== this.run || (message.from ? message.from.method > held : message.counts.method !== held))
      return this.ask("resync");
    return kind === "delta" ? this.delta(message) : this.end(message);
  }

  begin({ run, link, turn }) {
    this.fields.clear();
    if (this.turns[turn]) this.drop(turn); // sent again from its start
    Object.assign(this, { run, state: "running" });
    Object.assign(this.stage.dataset, { run, state: this.state });
    const box = make("section", "turn");
    const text = make("div", "text");
    const answer = make("article", "card lane method");
    const note = make("p", "readout");
    answer.append(text, note);
    box.append(make("p", "user", link.prompt), answer);
    this.at("talk").append(box);
    this.turns[turn] = { box, note, lane: new Lane(text, true), name: this.facts.names[link.method] ?? link.method };
    this.at("hint").hidden = true;
    this.at("key").hidden = false;
    this.say("");
    box.scrollIntoView({ block: "nearest" });
  }

  back(turn) {
    this.drop(turn);
    if (!turn) this.clear();
    this.legend.show(turn ? this.given : null);
    this.at("race").hidden = !this.turns.at(-1)?.readout?.plain;
    document.querySelector("#field-chat-prompt textarea").focus();
  }

  drop(turn) {
    const { box, lane } = this.turns[turn];
    for (const source of lane.steps.flatMap((step) => step.sources)) this.given.set(source, this.given.get(source) - 1);
    box.remove();
    this.turns.length = turn;
  }

  delta({ from, lanes }) {
    if (this.state !== "running") return;
    const { lane } = this.turns.at(-1);
    const fresh = lanes.method.slice(lane.steps.length - from.method);
    lane.extend(fresh);
    for (const source of fresh.flatMap((step) => step.sources)) this.given.set(source, (this.given.get(source) ?? 0) + 1);
    this.legend.show(this.given);
  }

  end({ state, problem, readout }) {
    this.stage.dataset.state = this.state = state;
    if (problem) this.fields.refuse(problem.field, problem.text);
    const turn = this.turns.at(-1);
    this.at("clear").hidden = this.at("back").hidden = false;
    this.at("race").hidden = !readout?.plain;
    if (!readout) return;
    turn.readout = readout;
    this.at("status").textContent = `${turn.name} wrote ${plural(readout.tokens, "token")} in ${seconds(readout.seconds)}`;
    if (this.facts.note)
      return turn.note.replaceChildren(make("b", "", `${speed(readout.rate)} tokens/s`), ` for ${plural(readout.tokens, "token")}, the first after ${seconds(readout.first)}`);
    const estimate = readout.estimate ? `≈ ${ratio(readout.estimate)}×` : "";
    const what = `${plural(readout.tokens, "token")} at ${speed(readout.rate)} tokens/s, ${ratio(readout.tau)} tokens a pass`;
    turn.note.replaceChildren(make("b", "estimate", estimate), make("span", "",
      ` estimated: ${what}; plain decoding ran ${speed(readout.plain)} tokens/s after ${plural(readout.context, "token")}`));
    if (readout.warm != null) turn.note.append(make("span", "kept warm", readout.warm ? `warm: guesses from what ${plural(readout.warm, "answer")} before taught` : "warm from the next answer on: nothing was learned yet"));
    if (readout.kept) turn.note.append(make("span", "kept", `${count(readout.kept)} of ${plural(readout.prompt, "prompt token")} kept from the turn before, the rest read now`));
  }

  measure({ kind, turn, speedup, differs, drawn, kept, problem }) {
    const at = this.turns[turn];
    if (!at) return;
    this.say("");
    at.note.querySelector(".measured")?.remove();
    if (kind === "measuring") return void at.note.append(make("span", "measured", "Racing this turn against plain decoding …"));
    const text = problem ?? (speedup ? "" : "The race of this turn was stopped.");
    const note = make("span", "measured", text);
    if (!text) {
      const start = kept ? `from copies of the same ${plural(kept, "kept token")}` : "from an empty cache";
      const same = differs === null ? "identical output" : drawn ? "another draw of the same distribution" : `first difference at token ${count(differs + 1)}`;
      note.append(make("b", "", `${ratio(speedup)}×`), ` measured by racing this turn, prefill included, both answers ${start}: ${same}`);
    }
    at.note.append(note);
    this.at("status").textContent = note.textContent;
  }

  showRate({ plain, context }) {
    this.say(plain
      ? `Estimates compare with plain decoding as measured here: ${speed(plain)} tokens/s after ${plural(context, "token")} of context.`
      : this.facts.note || "Plain decoding was not measured yet.");
    this.rate = this.at("rate").textContent;
  }

  say(text) {
    this.at("rate").textContent = text || this.rate || "";
  }
}
