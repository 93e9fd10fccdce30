import { Dialog } from "./parts/basic";

const keys: [string, string][] = [
  ["1 … 5", "The screens"],
  ["/", "Search users"],
  ["↑ ↓ Page Home End", "Move in a list"],
  ["Enter", "Open the user of the row"],
  ["Esc", "Close the user, or a dialog"],
  ["P", "Pause or continue the feed"],
  ["?", "This list"],
];

export function Help({ close }: { close: () => void }) {
  return (
    <Dialog title="Shortcuts" close={close}>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>{key.split(" ").map((k) => (k === "…" ? k : <kbd key={k}>{k}</kbd>))}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p class="note">Every screen and every user has an address of its own: copy it from the address bar.</p>
      <div class="acts">
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
