// Starts `modellint server`, and shows what it says. Nothing of a workspace is run but for live targets that are asked for.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const CHECK_LIVE = "modellint.checkLive";

let client;

/** The program that is the server: the command that is set, else the Python that is, else `modellint` on the path. */
function program(folder) {
  const settings = vscode.workspace.getConfiguration("modellint");
  const rest = ["server", ...settings.get("arguments", [])];
  const path = settings.get("path", "");
  const interpreter = settings.get("interpreter", "");
  // `python -m` imports from the folder that it is started in, which must not be the workspace's.
  const options = { cwd: folder };
  if (path === "" && interpreter !== "") {
    return { command: interpreter, args: ["-m", "modellint", ...rest], options };
  }
  return { command: path || "modellint", args: rest, options };
}

/** The file whose settings list the live targets: the one that is shown. */
function shown() {
  const editor = vscode.window.activeTextEditor;
  return editor === undefined ? [] : [editor.document.uri.toString()];
}

async function start(context) {
  client = new LanguageClient("modellint", "modellint", program(context.extensionPath), {
    documentSelector: [
      { scheme: "file", language: "python" },
      { scheme: "untitled", language: "python" },
    ],
    middleware: {
      executeCommand: async (command, args, next) => {
        if (command === CHECK_LIVE && !vscode.workspace.isTrusted) {
          vscode.window.showErrorMessage("modellint: live targets run code of the workspace, which is not trusted.");
          return [];
        }
        return next(command, command === CHECK_LIVE && args.length === 0 ? shown() : args);
      },
    },
  });
  try {
    await client.start();
  } catch (error) {
    const what = `modellint does not start: ${error.message}. Set modellint.path or modellint.interpreter; pip install 'modellint[server]'`;
    vscode.window.showErrorMessage(what);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  // One that did not start cannot be stopped.
  if (running !== undefined && running.isRunning()) {
    await running.dispose();
  }
}

async function activate(context) {
  let turn = start(context);
  const restart = () => {
    turn = turn.then(stop).catch(() => undefined).then(() => start(context));
    return turn;
  };
  context.subscriptions.push(
    vscode.commands.registerCommand("modellint.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      const names = ["path", "interpreter", "arguments"];
      if (names.some((name) => event.affectsConfiguration(`modellint.${name}`))) {
        return restart();
      }
    }),
  );
  await turn;
}

module.exports = { activate, deactivate: stop };
