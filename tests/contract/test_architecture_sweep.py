"""Architecture sweep: chosen transformers classes have no faults and listed refusals; stored sweep has all."""

import architecture_sweep
import pytest

from tests import text_model_classes
from tests.sweep import CHECKS, OK, faults_in, sweep

# Model type, class, and the checks that whence refuses there, each for a reason that it gives.
PART = {
    # Encoders and decoders, by the seam.
    ("bert", "BertForSequenceClassification"): (),
    ("bert", "BertLMHeadModel"): (),
    ("gpt2", "GPT2ForTokenClassification"): (),
    ("llama", "LlamaForCausalLM"): (),
    # Masks of their own: windows, chunks, blocks, a prefix, soft caps, sinks.
    ("gemma2", "Gemma2ForCausalLM"): (),
    ("gpt_neo", "GPTNeoForCausalLM"): (),
    ("gpt_oss", "GptOssForCausalLM"): (),
    ("big_bird", "BigBirdForMaskedLM"): (),
    # Positions by bias, rotation or none; layers shared; attention in code of their own.
    ("mpt", "MptForCausalLM"): (),
    ("bloom", "BloomForCausalLM"): (),
    ("gptj", "GPTJForCausalLM"): (),
    ("albert", "AlbertForQuestionAnswering"): (),
    ("deberta-v2", "DebertaV2ForMaskedLM"): (),
    ("xlm", "XLMWithLMHeadModel"): (),
    ("squeezebert", "SqueezeBertForSequenceClassification"): ("attention",),
    ("xlnet", "XLNetForSequenceClassification"): ("attention",),
    ("fnet", "FNetForSequenceClassification"): ("attention",),
    ("funnel", "FunnelForSequenceClassification"): ("attention",),
    # Experts, latent attention, state spaces.
    ("mixtral", "MixtralForCausalLM"): (),
    ("jetmoe", "JetMoeForCausalLM"): (),
    ("deepseek_v3", "DeepseekV3ForCausalLM"): (),
    ("mamba", "MambaForCausalLM"): ("attention",),
    ("minimax", "MiniMaxForCausalLM"): ("attention",),
    # An encoder and a decoder; those whose decoders get their causality from a mask.
    ("bart", "BartForConditionalGeneration"): (),
    ("t5", "T5ForConditionalGeneration"): (),
    ("bigbird_pegasus", "BigBirdPegasusForConditionalGeneration"): ("attention",),
    ("pegasus_x", "PegasusXForConditionalGeneration"): ("attention",),
    ("nllb-moe", "NllbMoeForConditionalGeneration"): (),
    ("fsmt", "FSMTForConditionalGeneration"): ("gradient", "attention"),
    ("switch_transformers", "SwitchTransformersForConditionalGeneration"): (),
    # What can be asked, and no more.
    ("reformer", "ReformerForSequenceClassification"): ("gradient", "attention"),
    ("perceiver", "PerceiverForMaskedLM"): ("gradient", "attention"),
    ("ibert", "IBertForSequenceClassification"): ("gradient",),
    ("canine", "CanineForSequenceClassification"): ("gradient", "attention"),
}
HEADS = {(kind, name): head for kind, head, name in text_model_classes.classes()}


@pytest.mark.parametrize(("kind", "name"), PART, ids=[name for _, name in PART])
def test_sweep_of_a_transformers_class_has_no_faults_and_only_the_listed_refusals(kind, name):
    outcome = sweep(kind, HEADS[kind, name], name)
    assert not outcome.unbuilt
    assert not faults_in(outcome.found)
    assert {check for check in CHECKS if outcome.found[check] != OK} == set(PART[kind, name])


def test_stored_sweep_has_no_faults_and_covers_all_transformers_classes():
    rows = {(row["kind"], row["name"]): row for row in architecture_sweep.load_outcomes()}
    for key, row in rows.items():
        assert not faults_in(row["found"]), key
    # The same version of transformers has the same classes; a newer one is tried by `make architectures`.
    import transformers

    if {row["transformers"] for row in rows.values()} == {transformers.__version__}:
        assert set(rows) == {(kind, name) for kind, _, name in text_model_classes.classes()}
