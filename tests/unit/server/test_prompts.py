"""What apps declare as prompts."""

from nextcloud_mcp_server.declarations.apps import APPS

PROMPTS = [prompt for app in APPS for prompt in app.prompts]


def test_each_prompt_has_a_name_of_its_own() -> None:
    assert len({prompt.name for prompt in PROMPTS}) == len(PROMPTS) > 0


def test_the_text_of_a_prompt_holds_its_argument_and_no_other_braces() -> None:
    for prompt in PROMPTS:
        text = prompt.text.replace(f"{{{prompt.argument}}}", "") if prompt.argument else prompt.text

        assert "{" not in text
        assert (text != prompt.text) == bool(prompt.argument) == bool(prompt.about_argument)
