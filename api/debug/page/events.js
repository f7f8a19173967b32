// Every public event that has a number. An EventSource gives out only the types that somebody listens for, so they are
// written down here; a test compares them with docs/events.md.

const call = (name, ...phases) => phases.map((phase) => `response.${name}.${phase}`);

export const EVENTS = [
  ...["created", "queued", "in_progress", "completed", "incomplete", "failed"].map((life) => `response.${life}`),
  ...call("output_item", "added", "done"),
  ...call("content_part", "added", "done"),
  ...call("output_text", "delta", "annotation.added", "done"),
  ...call("refusal", "delta", "done"),
  ...call("reasoning_summary_part", "added", "done"),
  ...call("reasoning_summary_text", "delta", "done"),
  ...call("reasoning_text", "delta", "done"),
  ...call("function_call_arguments", "delta", "done"),
  ...call("custom_tool_call_input", "delta", "done"),
  ...call("web_search_call", "in_progress", "searching", "completed"),
  ...call("file_search_call", "in_progress", "searching", "completed"),
  ...call("code_interpreter_call", "in_progress", "interpreting", "completed"),
  ...call("code_interpreter_call_code", "delta", "done"),
  ...call("image_generation_call", "in_progress", "generating", "partial_image", "completed"),
  ...call("mcp_call", "in_progress", "completed", "failed"),
  ...call("mcp_call_arguments", "delta", "done"),
  ...call("mcp_list_tools", "in_progress", "completed", "failed"),
];

export const TERMINAL = new Set(["response.completed", "response.incomplete", "response.failed"]);
