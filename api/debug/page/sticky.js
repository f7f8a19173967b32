// A box that stays at its end while more comes, unless the user has gone up in it.
//
// Where it stands is learnt from its own scrolling: asking for it while a picture is being made would lay the page out twice.

const NEAR = 40; // px from the end that still count as there

export class Sticky {
  constructor(box) {
    this.box = box;
    this.low = true;
    box.addEventListener("scroll", () => {
      this.low = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
    }, { passive: true });
  }

  /** Put other children in. */
  fill(...children) {
    this.box.replaceChildren(...children);
    if (this.low) this.box.scrollTop = Number.MAX_SAFE_INTEGER;
  }
}
