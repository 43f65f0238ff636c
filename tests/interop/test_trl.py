"""Recipes in TRL's GRPO: rewards, a training run, a curriculum that is resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskloom.interop.trl import Levels
from tests.interop.cases import HOSTILE, MANY, RECIPES, expected, replies
from tests.interop.models import tiny_model

trl = pytest.importorskip("trl", reason="needs trl: make test-interop")

from taskloom.interop.trl import RECORD, curriculum_rewards, recipe_rewards  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def trainer(model: Path, folder: Path, reward: Any, prompts: Any, **more: Any) -> Any:
    """Return a trainer for a few steps on the CPU."""
    callbacks = more.pop("callbacks", [])
    settings: dict[str, Any] = {
        "max_steps": 2,
        "num_generations": 2,
        "per_device_train_batch_size": 4,
        "max_completion_length": 4,
    }
    settings |= {
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "shuffle_dataset": False,
    }
    arguments = trl.GRPOConfig(output_dir=str(folder), disable_tqdm=True, **(settings | more))
    return trl.GRPOTrainer(
        model=str(model),
        reward_funcs=reward,
        train_dataset=prompts,
        args=arguments,
        callbacks=callbacks,
    )


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("chat", [True, False])
def test_rewards_are_the_scores_of_taskloom(
    model: Path, recipe: str, chat: bool, tmp_path: Path
) -> None:
    prompts, reward = recipe_rewards(recipe, RECIPES[recipe], MANY, seed=5, chat=chat)
    examples = list(reward.graded)
    texts = replies(examples, reward.graded.plan.scorer)
    completions = [[{"role": "assistant", "content": text}] for text in texts] if chat else texts
    grpo = trainer(model, tmp_path, reward, prompts)
    rows = list(prompts)
    rewards = grpo._calculate_rewards(
        rows, [row["prompt"] for row in rows], completions, [[0]] * MANY
    )
    wanted = expected(texts, examples, reward.graded.plan.scorer, "final")
    assert rewards[:, 0].tolist() == pytest.approx(wanted, abs=1e-6)
    assert 0.2 < sum(wanted) / MANY < 0.8


def test_a_run_trains_on_the_prompts_of_a_recipe(model: Path, tmp_path: Path) -> None:
    prompts, reward = recipe_rewards("babi/1", n=20)
    grpo = trainer(model, tmp_path, reward, prompts)
    result = grpo.train()
    assert result.global_step == 2
    assert "rewards/recipe_score/mean" in grpo.state.log_history[0]


def test_hostile_completions_get_no_reward() -> None:
    prompts, reward = recipe_rewards("babi/8", n=1)
    record = prompts[0][RECORD]
    for reply in HOSTILE:
        assert reward(completions=[reply], **{RECORD: [record]}) == [0.0]
        assert reward(
            completions=[[{"role": "assistant", "content": reply}]], **{RECORD: [record]}
        ) == [0.0]


def test_a_curriculum_is_resumed_from_a_checkpoint_with_the_same_prompts(
    model: Path, tmp_path: Path
) -> None:
    levels = Levels("length", (3, 4, 5), threshold=0.5, window=4)

    def run(folder: Path, checkpoint: str | None = None) -> tuple[list[str], dict[str, Any]]:
        prompts, reward, callback = curriculum_rewards("ctl/A", levels, "iid", 200)
        curriculum = reward.curriculum
        assert curriculum is not None
        seen: list[str] = []

        def lenient(*, completions: list[Any], **columns: Any) -> list[float]:
            seen.extend(json.loads(record)["input"] for record in columns[RECORD])
            scores = [1.0, 0.0] * (len(completions) // 2)  # a tiny model is never right
            curriculum.record(scores)
            return scores

        grpo = trainer(
            model,
            folder,
            lenient,
            prompts,
            max_steps=6,
            save_strategy="steps",
            save_steps=2,
            callbacks=[callback],
        )
        grpo.train(resume_from_checkpoint=checkpoint)
        return seen, curriculum.state()

    whole, state = run(tmp_path / "one")
    assert len(state["began"]) == 2
    rest, again = run(tmp_path / "one", str(tmp_path / "one" / "checkpoint-2"))
    assert rest == whole[-len(rest) :]
    assert 0 < len(rest) < len(whole)
    assert again == state


@pytest.mark.parametrize("recipe", ["babi/1", "ctl/A"])
def test_preferred_replies_are_right_and_rejected_ones_wrong(recipe: str) -> None:
    from taskloom.interop.graded import open_split
    from taskloom.interop.trl import preference_dataset, sft_dataset

    pytest.importorskip("datasets", reason="needs datasets")
    graded = open_split(recipe, n=40, described=True, role="train")
    examples = {graded.prompt(example): example for example in graded}
    rows = preference_dataset(recipe, n=40)
    assert len(rows) == 40
    for row in rows:
        example = examples[row["prompt"][0]["content"]]
        assert graded.grade(row["chosen"][0]["content"], example).score == 1
        assert graded.grade(row["rejected"][0]["content"], example).score == 0
    bare = sft_dataset(recipe, n=40, chat=False)
    assert bare["prompt"] == list(map(graded.prompt, graded))
    assert bare["completion"] == [f"\nAnswer: {example.target}" for example in graded]


@pytest.mark.parametrize("kind", ["SFT", "DPO"])
def test_supervised_and_preference_trainers_take_the_rows(kind: str, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl", reason="needs trl: make test-interop")
    from taskloom.interop.trl import preference_dataset, sft_dataset
    from tests.interop.models import tiny_model

    rows = sft_dataset("babi/1", n=4) if kind == "SFT" else preference_dataset("babi/1", n=4)
    here = {"use_cpu": True, "bf16": False, "report_to": [], "max_steps": 1}
    config = getattr(trl, f"{kind}Config")(
        str(tmp_path / "out"), per_device_train_batch_size=2, **here
    )
    model = str(tiny_model(tmp_path / "tiny"))
    trainer = getattr(trl, f"{kind}Trainer")(model, args=config, train_dataset=rows)
    assert trainer.train().training_loss > 0
