"""Values of a config.json, each with the rule it must obey; a feature that is not read is refused by name."""

import math
from collections.abc import Mapping
from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.rope import RoPE

# About training, generating, loading or naming: nothing here changes what a network computes from token ids.
_NO_MATTER = frozenset(
    """
    architectures attention_dropout attention_probs_dropout_prob attn_implementation begin_suppress_tokens bos_token_id
    chunk_size_feed_forward classifier_dropout cls_token_id decoder_start_token_id diversity_penalty do_sample dtype
    early_stopping eos_token_id exponential_decay_length_penalty finetuning_task forced_bos_token_id
    forced_eos_token_id gradient_checkpointing hidden_dropout hidden_dropout_prob id2label initializer_range label2id
    length_penalty mask_token_id max_length min_length model_type no_repeat_ngram_size num_beam_groups num_beams
    num_labels num_return_sequences output_attentions output_hidden_states output_scores pad_token_id
    prefix pretraining_tp problem_type remove_invalid_values repetition_penalty resid_pdrop return_dict
    return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature tokenizer_class top_k top_p
    torch_dtype torchscript transformers_version typical_p unk_token_id use_cache
    """.split()
)
_ROPE_KEYS = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}


class Config:
    """Values of a config.json by name; it records the names that were read."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content
        self._asked: set[str] = set()

    def _value(self, name: str) -> Any:
        self._asked.add(name)
        return self._content.get(name)

    @property
    def family(self) -> str:
        """``model_type``."""
        return str(self._value("model_type"))

    def count(self, name: str, default: int | None = None) -> int:
        """An integer >= 1."""
        value = self._value(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidInstance(f"config.json must give {name} as an integer >= 1; got {value!r:.60}")
        return value

    def count_or_none(self, name: str) -> int | None:
        """An integer >= 1, or null."""
        return None if self._value(name) is None else self.count(name)

    def number(self, name: str, default: float) -> float:
        """A finite number > 0."""
        value = self._value(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value > 0):
            raise InvalidInstance(f"config.json must give {name} as a finite number > 0; got {value!r:.60}")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """A string."""
        value = self._value(name)
        value = default if value is None else value
        if not isinstance(value, str):
            raise InvalidInstance(f"config.json must give {name} as a string; got {value!r:.60}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """Return a value that must be true or false."""
        value = self._value(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise InvalidInstance(f"config.json must give {name} as true or false; got {value!r:.60}")
        return value

    def texts(self, name: str) -> list[str] | None:
        """A list of strings, or null."""
        value = self._value(name)
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise InvalidInstance(f"config.json must give {name} as a list of strings; got {value!r:.60}")
        return value

    def must_be(self, name: str, wanted: object) -> None:
        """Refuse a model that needs something this package does not compute."""
        value = self._value(name)
        if value is not None and value != wanted:
            raise InvalidInstance(f"only models with {name} = {wanted!r} can be read; got {value!r:.60}")

    def rope(self) -> RoPE:
        """The rotation, from ``rope_parameters`` (newer files) or ``rope_theta`` and ``rope_scaling``."""
        newer, older, theta = (self._value(name) for name in ("rope_parameters", "rope_scaling", "rope_theta"))
        scaling = newer if newer is not None else older
        if scaling is not None and not isinstance(scaling, Mapping):
            raise InvalidInstance(f"config.json must give the rope scaling as an object; got {scaling!r:.60}")
        theta = 10000.0 if theta is None else theta
        if newer is not None:
            theta = newer.get("rope_theta", theta)
            scaling = {"rope_type": newer.get("type", "default"), **newer}
        rope = RoPE.of_file(
            theta, "half", scaling or None, scaling_name="rope_scaling" if newer is None else "rope_parameters"
        )
        self._refuse_rope_extras(scaling or {})
        return rope

    @staticmethod
    def _refuse_rope_extras(scaling: Mapping[str, Any]) -> None:
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        known = {"rope_type", "type", "rope_theta", *_ROPE_KEYS[kind]}
        for name, value in scaling.items():
            whole = name == "partial_rotary_factor" and value == 1
            if name not in known and not whole and not _nothing(value):
                raise InvalidInstance(
                    f"a rotation of type {kind} is computed without {name}; config.json gives it as {value!r:.60}"
                )

    def refuse_rest(self) -> None:
        """Refuse every feature that was not read and is switched on: it would be computed wrongly."""
        for name, value in sorted(self._content.items()):
            if name in self._asked or name in _NO_MATTER or name.startswith("_") or _nothing(value):
                continue
            raise InvalidInstance(
                f"config.json gives {name} = {value!r:.60}, which is not computed here for model_type {self.family!r}"
            )


def _nothing(value: object) -> bool:
    """null, false, 0 or empty: a feature that is switched off."""
    return not value
