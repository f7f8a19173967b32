"""From the public request to the body of a Chat Completions request.

Called by `translator.outbound`: `check_chat` at create, for what Chat cannot say, and `chat_body` for each round. What
becomes of which field is a table in docs/chat.md.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from translator.chat_messages import chat_messages
from translator.chat_parts import refuse_part, said
from translator.functions import functions, parallel_calls
from translator.history import FORWARDED
from translator.protocol.errors import RequestError
from translator.protocol.request import NULLABLE
from translator.protocol.upstream import ReasoningHistory
from translator.tool_choice import Choice
from translator.toolmap import ToolMap

Body = dict[str, Any]
Items = Sequence[dict[str, Any]]

CHAT_FIELDS: Final = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)
"""What every Chat server may be asked."""

SERVER_FIELDS: Final = frozenset(
    " ".join(
        (
            # vLLM
            "add_generation_prompt add_special_tokens allowed_token_ids bad_words best_of cache_salt "
            "chat_template chat_template_kwargs continue_final_message documents echo guided_choice "
            "guided_decoding_backend guided_grammar guided_json guided_regex guided_whitespace_pattern "
            "ignore_eos include_reasoning include_stop_str_in_output kv_transfer_params length_penalty "
            "logits_processors min_p min_tokens mm_processor_kwargs priority prompt_logprobs "
            "ec_transfer_params logprob_token_ids media_io_kwargs repetition_detection repetition_penalty "
            "return_prompt_text return_token_ids return_tokens_as_token_ids session_id skip_special_tokens "
            "spaces_between_special_tokens stop_token_ids stream_interval structured_outputs "
            "thinking_token_budget top_k truncate_prompt_tokens truncation_side use_beam_search vllm_xargs",
            # SGLang
            "custom_logit_processor custom_params ebnf extra_key lora_path max_dynamic_patch no_stop_trim "
            "regex return_hidden_states rid separate_reasoning session_params stop_regex stream_reasoning "
            "task use_audio_in_video",
            # llama.cpp
            "cache_prompt dry_allowed_length dry_base dry_multiplier dry_penalty_last_n "
            "dry_sequence_breakers dynatemp_exponent dynatemp_range grammar id_slot json_schema lora "
            "min_keep mirostat mirostat_eta mirostat_tau n_probs parse_tool_calls reasoning_format "
            "repeat_last_n repeat_penalty samplers t_max_predict_ms timings_per_token top_n_sigma typical_p "
            "xtc_probability xtc_threshold",
            # Ollama, and hosts of many models
            "enable_thinking guardrails keep_alive min_new_tokens models plugins prompt_mode provider random_seed route "
            "safe_prompt think thinking thinking_budget transforms",
        )
    ).split()
)
"""What the model servers that speak Chat take beside it. Nothing else of a client goes up: strict servers refuse a whole
request for one field that they do not know (contract.md section 2, upstream-quirks.md section 5)."""

OUTPUT_LIMIT: Final = "max_tokens"
"""The field that all servers obey, vLLM too. `max_completion_tokens` is silently ignored by Ollama, LM Studio and others
and refused by Mistral; only OpenAI's own reasoning models want it, and those speak Responses."""

CONTENTS: Final = {
    "message": "content",
    "function_call_output": "output",
    "custom_tool_call_output": "output",
}
"""Where the items that go up hold parts."""

FUNCTION_KEYS: Final = ("name", "description", "parameters", "strict")
SCHEMA_KEYS: Final = ("name", "description", "schema", "strict")
LOGPROBS: Final = "message.output_text.logprobs"


def check_chat(body: Body, input_items: Items, history: Items) -> None:
    """Raise RequestError for what Chat Completions cannot say."""
    if body.get("prompt") is not None:
        raise RequestError(
            "The upstream of this model speaks Chat Completions, which has no stored prompts.",
            param="prompt",
        )
    for at, item in located(history, input_items):
        if item["type"] in FORWARDED:
            raise RequestError(
                f"The upstream of this model speaks Chat Completions, which has no items of type {item['type']!r}.",
                param=at,
            )
        only_text = item["type"] == "message" and item["role"] != "user"
        key = CONTENTS.get(item["type"], "")
        parts = item.get(key)
        for place, part in enumerate(parts if isinstance(parts, list) else ()):
            refuse_part(part, f"{at}.{key}[{place}]", only_text=only_text)


def located(history: Items, input_items: Items) -> Iterator[tuple[str, dict[str, Any]]]:
    """All items, each with its place in the request."""
    for at, items in (("previous_response_id", history), ("input", input_items)):
        yield from ((f"{at}[{index}]", item) for index, item in enumerate(items))


def chat_body(
    body: Body,
    items: Items,
    tools: ToolMap,
    choice: Choice,
    *,
    reasoning_history: ReasoningHistory,
) -> Body:
    """The body of one inference round; what `check` has let through never raises here."""
    copy = {key: value for key, value in body.items() if value is not None or key not in NULLABLE}
    copy |= translated(body)
    if body.get("max_output_tokens") is not None:
        copy.pop("max_completion_tokens", None)  # OpenAI refuses both
    copy |= {"stream": True, "stream_options": {"include_usage": True}}
    copy["messages"] = chat_messages(
        items,
        tools,
        instructions=body.get("instructions"),
        reasoning_history=reasoning_history,
    )
    for key in ("tools", "tool_choice", "parallel_tool_calls"):
        copy.pop(key, None)
    if visible := functions(tools, choice.allowed):
        # Without tools, a choice among them or a word on their number is refused by OpenAI and by vLLM.
        copy["tools"] = [chat_function(one) for one in visible]
        parallel = parallel_calls(body, tools)
        copy |= said(tool_choice=chat_choice(choice), parallel_tool_calls=parallel)
    return dispatched(copy, body)


def dispatched(copy: Body, asked: Body) -> Body:
    """The dispatch boundary: nothing passes it but what Chat, or a server of it, knows.

    Whatever is made on the way has a place in CHAT_FIELDS or does not leave; of what the client asked for, the fields of
    model servers go up as they are.
    """
    return {
        key: value
        for key, value in copy.items()
        if key in CHAT_FIELDS or (key in asked and key in SERVER_FIELDS)
    }


def translated(body: Body) -> Body:
    """The fields that Chat has under other names."""
    text, reasoning = body.get("text") or {}, body.get("reasoning") or {}
    fields = said(
        reasoning_effort=reasoning.get("effort"),
        response_format=response_format(text.get("format")),
        top_logprobs=body.get("top_logprobs"),
        verbosity=text.get("verbosity"),
    )
    if (limit := body.get("max_output_tokens")) is not None:
        fields[OUTPUT_LIMIT] = limit
    if "top_logprobs" in fields or LOGPROBS in (body.get("include") or ()):
        fields["logprobs"] = True
    return fields


def response_format(format: Body | None) -> Body | None:
    """The form of the text; None for plain text, which is what Chat gives unasked."""
    if not format or format["type"] == "text":
        return None
    if format["type"] == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": only(format, SCHEMA_KEYS)}


NOTHING: Final = {"type": "object", "properties": {}}
"""Parameters of a function that takes none."""


def chat_function(function: Body) -> Body:
    """A function in Chat's shape; one that takes nothing says so, as some servers refuse one that does not."""
    told = only(function, FUNCTION_KEYS)
    nothing = NOTHING | ({"additionalProperties": False} if told.get("strict") else {})
    return {
        "type": "function",
        "function": {**told, "parameters": told.get("parameters") or nothing},
    }


def chat_choice(choice: Choice) -> str | Body | None:
    """A tool choice in Chat's shape. Of `allowed_tools` the mode is left: only those tools are sent."""
    if not isinstance(choice.value, dict):
        return choice.value
    if choice.value["type"] == "allowed_tools":
        return "auto"
    return {"type": "function", "function": {"name": choice.value["name"]}}


def only(fields: Body, keys: Sequence[str]) -> Body:
    """The fields of these names that say something."""
    return said(**{key: fields.get(key) for key in keys})
