"""Scripts of frameworks, each an agent with subagents and a tool that runs commands.

Nothing in them is for Refold.  Each is given its task, and prints the answer.
"""

from typing import Final

_HEAD: Final = '''import subprocess
import sys

TASK, RULES = sys.argv[1], "Be brief and kind."


def run(command: str) -> str:
    """Run a command.

    Args:
        command: a line of a shell
    """
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


'''
_SCRIPTS: Final = {
    "claude-agent-sdk": """import anyio
from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, TextBlock, query


async def main():
    tools = ["Read", "Agent", "Bash"]
    options = ClaudeAgentOptions(allowed_tools=tools, system_prompt=RULES)
    async for message in query(prompt=TASK, options=options):
        if isinstance(message, AssistantMessage):
            print(*[block.text for block in message.content if isinstance(block, TextBlock)])


anyio.run(main)
""",
    "openai-agents": """from agents import Agent, Runner, function_tool

tool = function_tool(run)
counter = Agent(name="counter", model="gpt-5-mini", instructions=RULES, tools=[tool])
ask = counter.as_tool("ask", "Asks a counter.")
boss = Agent(name="boss", model="gpt-5-mini", instructions=RULES, tools=[tool, ask])
print(Runner.run_sync(boss, TASK).final_output)
""",
    "pydantic-ai-slim": """from pydantic_ai import Agent

counter = Agent("openai:gpt-5-mini", instructions=RULES, tools=[run])
boss = Agent("openai:gpt-5-mini", instructions=RULES, tools=[run])


@boss.tool_plain
async def ask(task: str) -> str:
    return (await counter.run(task)).output


print(boss.run_sync(TASK).output)
""",
    "langchain": """from langchain.agents import create_agent

counter = create_agent("openai:gpt-5-mini", [run], system_prompt=RULES)


def told(agent, task):
    return agent.invoke({"messages": [("user", task)]})["messages"][-1].text


def ask(task: str) -> str:
    "Ask a counter."
    return told(counter, task)


print(told(create_agent("openai:gpt-5-mini", [run, ask], system_prompt=RULES), TASK))
""",
    "deepagents": """from deepagents import create_deep_agent

agent = create_deep_agent(model="openai:gpt-5-mini", tools=[run], system_prompt=RULES)
print(agent.invoke({"messages": [("user", TASK)]})["messages"][-1].text)
""",
    "autogen-agentchat": """import asyncio
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

model = OpenAIChatCompletionClient(model="gpt-4o-mini")


async def told(name, task, *tools):
    agent = AssistantAgent(
        name, model, tools=[run, *tools], system_message=RULES, max_tool_iterations=5
    )
    return (await agent.run(task=task)).messages[-1].content


async def ask(task: str) -> str:
    "Ask a counter."
    return await told("counter", task)


print(asyncio.run(told("boss", TASK, ask)))
""",
    "strands-agents": """from strands import Agent, tool
from strands.models.openai import OpenAIModel


def told(task, *tools):
    model = OpenAIModel(model_id="gpt-5-mini")
    tools = [tool(run), *tools]
    return str(Agent(model, tools=tools, system_prompt=RULES, callback_handler=None)(task))


@tool
def ask(task: str) -> str:
    "Ask a counter."
    return told(task)


print(told(TASK, ask))
""",
    "smolagents": """from smolagents import OpenAIServerModel, ToolCallingAgent, tool

model = OpenAIServerModel("gpt-5-mini")
first, second = (
    ToolCallingAgent([tool(run)], model, name=name, description="counts", instructions=RULES)
    for name in ("first", "second")
)
boss = ToolCallingAgent([tool(run)], model, managed_agents=[first, second], instructions=RULES)
print(boss.run(TASK))
""",
    "agno": """import asyncio
from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.team import Team

model = OpenAIChat(id="gpt-5-mini")
counter = Agent(name="counter", id="counter", model=model, tools=[run], telemetry=False)
boss = Team(
    name="boss", members=[counter], model=model, tools=[run], instructions=RULES, telemetry=False
)
print(asyncio.run(boss.arun(TASK)).content)
""",
    "llama-index-core": """import asyncio
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI

model = OpenAI(model="gpt-4o-mini")


async def told(task, *tools):
    return str(await FunctionAgent(llm=model, tools=[run, *tools], system_prompt=RULES).run(task))


async def ask(task: str) -> str:
    "Ask a counter."
    return await told(task)


print(asyncio.run(told(TASK, ask)))
""",
    "dspy": """import dspy

dspy.configure(lm=dspy.LM("openai/gpt-4o-mini", cache=False))
ask = dspy.Predict(dspy.Signature("task -> answer", RULES))
tasks = [dspy.Example(task=f"{TASK}, {n}").with_inputs("task") for n in (1, 2, 3)]
print(*[each.answer for each in dspy.Parallel()([(ask, each) for each in tasks])])
run("echo seven >> a.txt && git add -A && git commit -q -m notes")
""",
}
SCRIPTS: Final = {name: _HEAD + text for name, text in _SCRIPTS.items()}
"""By the package of each."""
