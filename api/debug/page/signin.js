// The box for an API key, where the gateway asks for one.
import { by } from "./dom.js";
import { API, forget, json, keep, key, Refused } from "./server.js";

/** Make sure that we may ask: nothing is shown where no key is needed, or the tab's key is right. */
export async function signIn() {
  try {
    await json(`${API}?limit=1`);
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 401) throw error;
    const had = key();
    forget();
    await box(Boolean(had));
  }
  by("sign-out").hidden = !key();
}

function box(wrong) {
  const dialog = by("sign-in");
  by("sign-in-wrong").hidden = !wrong;
  dialog.showModal();
  return new Promise((resolve, reject) => {
    const cancel = (event) => event.preventDefault(); // without a key there is nothing behind the box
    const submit = async (event) => {
      event.preventDefault();
      keep(by("key").value.trim());
      try {
        await json(`${API}?limit=1`);
      } catch (error) {
        forget();
        if (!(error instanceof Refused) && !(error instanceof TypeError)) return reject(error);
        by("sign-in-wrong").hidden = false;
        by("sign-in-wrong").textContent = error.status === 401 ? "This is not a key of this gateway." : error.message;
        by("key").select();
        return;
      }
      by("key").value = "";
      by("sign-in-form").removeEventListener("submit", submit);
      dialog.removeEventListener("cancel", cancel);
      dialog.close();
      resolve();
    };
    by("sign-in-form").addEventListener("submit", submit);
    dialog.addEventListener("cancel", cancel);
  });
}

export function signOut() {
  forget();
  location.reload();
}
