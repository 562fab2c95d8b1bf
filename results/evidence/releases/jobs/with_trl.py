"""with_trl.py trainer feature: gradient_accumulation_steps of its SFTTrainer.

The sequences are of other lengths, on purpose: each micro-batch has other tokens that count.
"""

import torch
from account_of_steps import MICRO_BATCHES, STEPS, told
from spy import RANKS, Spy, data_set_of
from with_transformers import WORDS, arguments_of, loss_of, make, tokens_of

ROWS = 2


class SpyOnTokens(Spy):
    def batch_of(self, inputs, named):
        return {name: named[name].clone() for name in ("input_ids", "labels")}


def rows():
    generator = torch.Generator().manual_seed(5)
    for _ in range(RANKS * MICRO_BATCHES * STEPS * ROWS):
        length = int(torch.randint(4, 13, (1,), generator=generator))
        yield torch.randint(2, WORDS, (length,), generator=generator).tolist()


def tokenizer():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = models.WordLevel({str(i): i for i in range(WORDS)}, unk_token="1")
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), pad_token="0", eos_token="1")


@told
def main(wrapper, policy):
    from trl import SFTConfig, SFTTrainer

    spy = SpyOnTokens(make, loss_of)
    more = {"bf16": False, "gradient_checkpointing": False}
    arguments = SFTConfig(output_dir=".", **arguments_of(ROWS), **more)
    data = data_set_of({"input_ids": list(rows())})
    trainer = SFTTrainer(spy.model, arguments, train_dataset=data, processing_class=tokenizer())
    trainer.train()
    spy.close(tokens_of)


if __name__ == "__main__":
    main()
