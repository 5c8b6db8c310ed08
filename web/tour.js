// The tour of two minutes: a card that shows the page's parts one after the other and trains where there is something to see.
// It uses the page as a person does, through its controls, and says of a run only what the page then shows. The page fetches
// it for `?tour`, and for its link.

// A sample whose head is worth its training.
const SAMPLE = "mirrored";
// Runs of one setting differ by this much and more with another seed.
const CLEAR = 0.03;

const STYLE = `
.tour { position: fixed; z-index: 5; left: 1rem; bottom: 3.2rem; width: min(25rem, calc(100vw - 2rem)); padding: 1rem 1.1rem;
  max-height: 60vh; overflow: auto; background: var(--card); border: 2px solid var(--accent); border-radius: 8px;
  box-shadow: 0 8px 30px rgb(0 0 0 / 0.25); }
.tour.right { left: auto; right: 1rem; }
.tour h2 { margin: 0 0 0.5rem; font-size: 1.1rem; }
.tour p { margin: 0 0 0.6rem; }
.tour .found { padding: 0.5rem 0.7rem; background: var(--warn-soft); border-radius: 6px; }
.tour .found:empty { display: none; }
.tour .buttons { display: flex; gap: 0.5rem; align-items: center; }
.tour .muted { margin-left: auto; }
.toured { outline: 3px solid var(--accent); outline-offset: -3px; }
@media (max-width: 700px) {
  .tour { bottom: 4.2rem; max-height: 45vh; }
  .toured { scroll-margin-bottom: 55vh; }
}
`;

const part = (id) => document.querySelector(`[data-testid="${id}"]`);
const text = (id) => part(id).textContent.trim();
const score = (value) => value.toFixed(2);

/** Waits until `is` gives something, looking again whenever the page changes. */
const until = (is) => new Promise((done) => {
  const look = () => {
    const found = is();
    if (!found) return;
    changes.disconnect();
    done(found);
  };
  const changes = new MutationObserver(look);
  changes.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  look();
});

/** Sets controls, by the names of their settings; what a teacher's link leaves out of them goes into the page's link. */
async function set(settings) {
  const link = new URLSearchParams(location.hash.slice(1));
  const before = link.toString();
  for (const [name, value] of Object.entries(settings)) {
    const knob = document.getElementById(`knob-${name.replaceAll(".", "-")}`);
    if (knob) {
      knob.value = value;
      knob.dispatchEvent(new Event("change", { bubbles: true }));
    } else {
      link.set(name, value);
    }
  }
  if (link.toString() === before) return;
  const taken = new Promise((done) => addEventListener("hashchange", () => setTimeout(done), { once: true }));
  location.hash = link;
  await taken;
}

/** Trains with these settings over those of the page. Returns what the page shows at the end, of the test rows. */
async function train(settings = {}) {
  await set(settings);
  await until(() => !part("run").disabled);
  part("run").click();
  await until(() => !/^(Ready|Done)/.test(text("status")) || part("error").checkVisibility());
  await until(() => /^Done/.test(text("status")) || part("error").checkVisibility());
  if (part("error").checkVisibility()) throw new Error(part("error").querySelector("span").textContent);
  const number = (id) => Number(text(id));
  return {
    head: number("precision-at-1"),
    raw: number("baseline-precision-at-1"),
    linear: number("baseline-linear-precision-at-1"),
    counts: Object.fromEntries(["valid", "mined", "active"].map((name) => [name, text(`mining-${name}`)])),
  };
}

/** How a score stands to another, in words. */
function stands(a, b) {
  if (Math.abs(a - b) < CLEAR) return "about as often as";
  return a > b ? "more often than" : "less often than";
}

const MEMORY = { "sampler.name": "shuffled", memory_size: 1024, "miner.type_of_triplets": "semihard" };
const runs = {};

// What each stop says, the part it is about, the tab that has to be open, what its button does, and what came of that.
const STOPS = [
  {
    title: "Rows that belong together",
    says: ["Each point is a row of a table, and each colour a class. Training makes a small network, the head, that puts rows of one class close together.",
      "Some classes are kept apart until the end. The head never trains on them, so they tell whether it has learned more than these rows."],
    about: ".map",
  },
  {
    title: "Triplets",
    says: ["A triplet is an anchor, a row of its class (the positive), and a row of another class (the negative). The head learns to put the positive nearer than the negative, by a margin."],
    about: "figure.mining",
    tab: 1,
    does: ["Train", async () => { runs.band = await train(MEMORY); }],
    found: () => `The last step had ${runs.band.counts.valid} triplets. The miner kept ${runs.band.counts.mined} of them, and ${runs.band.counts.active} still had something to teach. On classes never seen, the nearest row is now right for ${score(runs.band.head)} of the rows; before training it was for ${score(runs.band.raw)}.`,
  },
  {
    title: "The semi-hard band",
    says: ["Most triplets are easy: the negative is far away, and there is nothing to learn. In the hardest the negative is nearer than the positive. Between them lies the band: the negative is farther than the positive, but by less than the margin.",
      "The miner kept the triplets of the band. What if it keeps the hardest alone?"],
    about: "figure:has([data-testid=chart-similarities])",
    tab: 1,
    does: ["Train on the hardest alone", async () => { runs.hard = await train({ ...MEMORY, "miner.type_of_triplets": "hard" }); }],
    found: () => `Here the nearest row is right ${stands(runs.hard.head, runs.band.head)} with the band: ${score(runs.hard.head)} of the rows, against ${score(runs.band.head)}.`,
  },
  {
    title: "Memory, or a sampler",
    says: ["A small batch rarely has two rows of one class, so there are few triplets. A cross-batch memory keeps the rows of past batches, and each batch meets them all.",
      "A sampler does it otherwise: it puts several rows of each class into a batch. Train without either, then with the sampler."],
    about: ".knob:has(#knob-memory_size), .controls details",
    does: ["Train twice", async () => {
      runs.neither = await train({ ...MEMORY, memory_size: 0 });
      runs.sampler = await train({ ...MEMORY, memory_size: 0, "sampler.name": "m-per-class" });
    }],
    found: () => `The nearest row is right for ${score(runs.neither.head)} of the rows with neither, ${score(runs.sampler.head)} with the sampler, ${score(runs.band.head)} with the memory.`,
  },
  {
    title: "Is a network needed at all?",
    says: ["A linear map (LDA) is found in one step, without training. Each verdict compares the head with it: if the map does as well, take the map."],
    about: ".numbers",
    found: () => {
      const { head, linear, raw } = runs.band;
      const kept = stands(linear, head).startsWith("less") ? "The head is worth its training." : "The map is simpler, and here it is the better choice.";
      return `The first run: ${score(head)} with the head, ${score(linear)} with the linear map, ${score(raw)} as the data is. ${kept}`;
    },
  },
  {
    title: "Your turn",
    says: ["Drop a table of your own on the page: one row per item, and a column that names its class. It stays on this computer.",
      "Runs keeps the four runs of this tour; tick some to see their lines together. Compare does the same with several seeds, and says which differences are clear."],
    about: "label.file",
  },
];

let card;
let at = 0;

function make(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function leave() {
  for (const element of document.querySelectorAll(".toured")) element.classList.remove("toured");
}

function close() {
  leave();
  card.remove();
  set(MEMORY);
}

/** Shows a stop, and what its run brought where it has run. */
function show() {
  const { title, says, about, tab, does, found } = STOPS[at];
  leave();
  if (tab !== undefined) document.getElementById(`tab-${tab}`).click();
  // What is folded, or what a teacher left out, is not on the screen.
  const all = [...document.querySelectorAll(about)];
  const seen = all.filter((element) => element.checkVisibility());
  const parts = seen.length > 0 ? seen : all;
  for (const element of parts) element.classList.add("toured");
  const bring = () => parts[0].scrollIntoView({ block: "nearest" });
  bring();
  // Not over what it is about.
  card.classList.toggle("right", parts[0].closest("aside") !== null);
  const result = make("p", { className: "found", role: "status" });
  const next = make("button", { className: "primary" });
  const back = make("button", { textContent: "Back", hidden: at === 0, onclick: () => { at -= 1; show(); } });
  const end = make("button", { textContent: "Close", className: "quiet", onclick: close });
  const count = make("span", { className: "muted", textContent: `${at + 1} of ${STOPS.length}` });
  const go = () => {
    next.textContent = at + 1 < STOPS.length ? "Next" : "End the tour";
    next.onclick = () => {
      at += 1;
      if (at < STOPS.length) show();
      else close();
    };
    result.textContent = found?.() ?? "";
    bring();
  };
  if (does && !does.done) {
    next.textContent = does[0];
    next.onclick = async () => {
      next.ariaDisabled = "true";
      next.onclick = null;
      result.textContent = "Training ..";
      try {
        await does[1]();
        does.done = true;
        go();
      } catch (error) {
        result.textContent = `The tour cannot go on: ${error.message}`;
      }
      next.ariaDisabled = "false";
    };
  } else {
    go();
  }
  card.replaceChildren(make("h2", { textContent: title }), ...says.map((words) => make("p", { textContent: words })), result,
    make("div", { className: "buttons" }, next, back, end, count));
  next.focus({ preventScroll: true });
}

const sheet = new CSSStyleSheet();
sheet.replaceSync(STYLE);
document.adoptedStyleSheets.push(sheet);

/** Begins the tour, unless it is under way. */
export async function tour() {
  if (card?.isConnected) return;
  card = make("section", { className: "tour", ariaLabel: "Tour" });
  card.onkeydown = (event) => event.key === "Escape" && close();
  at = 0;
  await until(() => /^(Ready|Choose)/.test(text("status")));
  // The page keeps its link in step with what it shows.
  const data = () => new URLSearchParams(location.hash.slice(1)).get("data");
  if (data() !== SAMPLE) location.hash = `data=${SAMPLE}`;
  await until(() => data() === SAMPLE && /^Ready/.test(text("status")));
  document.body.append(card);
  show();
}
