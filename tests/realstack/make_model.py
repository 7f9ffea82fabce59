"""Write a tiny Llama-shaped model folder: a config and a byte-level tokenizer, no weights.

SGLang starts on it with --load-format dummy (random weights), so nothing is downloaded.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

WORDS = "prefill decode throughput token server profile restart bench router queue cache "

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 1024,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}

TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "model_max_length": 8192,
    "chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}",
}


def tokenizer() -> Tokenizer:
    """Byte-level BPE, trained on a handful of words: any text can be encoded."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    made.train_from_iterator([WORDS * 50], trainer)
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG, indent=1))
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1))
