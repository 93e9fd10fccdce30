import { render } from "preact";
import "./console.css";

render(<main>Stillhere</main>, document.getElementById("app")!);
