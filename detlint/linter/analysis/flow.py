"""Control flow of one function or module body: what reaches a name, and what can happen between two places."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from detlint.linter.analysis.blocks import Block, constant_truth, order_of
from detlint.linter.analysis.conditions import Condition, Fact, Facts
from detlint.linter.analysis.constant_tests import name_tested, truth_after
from detlint.linter.source.index import Index
from detlint.linter.source.names import FUNCTIONS, Binding, Scope
from detlint.linter.source.nodes import ends_program, walk

_REMEMBERED_CONDITIONS = 6
_Ends = list[tuple[Block, "bool | None"]]


class Flow:
    """The control-flow graph of the body of `scope` (a function or the module), statement by statement.

    Nested functions and classes are single statements here; they have flows of their own. An exception may leave a
    `try` body after any of its statements.
    """

    def __init__(self, index: Index, scope: Scope) -> None:
        self._index = index
        self.scope = scope
        self._blocks: list[Block] = []
        self._block_of: dict[ast.AST, Block] = {}
        self._loops: list[tuple[Block, _Ends]] = []
        self._handlers: list[list[Block]] = []
        self._returns: _Ends = []
        self.entry = self._new(())
        body = getattr(scope.node, "body", [])
        ends = self._body(body if isinstance(body, list) else [], [(self.entry, None)])
        self.exit = self._new(())
        self._connect([*ends, *self._returns], self.exit)
        self._reaching: dict[str, list[int]] = {}

    def forget(self) -> None:
        """Free the graph: its loops refer back to themselves."""
        for block in self._blocks:
            block.successors.clear()

    # --- construction -------------------------------------------------------------------------------------------

    def _new(self, nodes: Iterable[ast.AST]) -> Block:
        block = Block(len(self._blocks), nodes)
        self._blocks.append(block)
        for node in block.nodes:
            self._block_of[node] = block
        for handlers in self._handlers[-1:]:
            for handler in handlers:
                block.successors.append((handler, None))
        return block

    @staticmethod
    def _connect(ends: _Ends, block: Block) -> None:
        for end, truth in ends:
            end.successors.append((block, truth))

    def _body(self, statements: list[ast.stmt], ends: _Ends) -> _Ends:
        for statement in statements:
            ends = self._statement(statement, ends)
        return ends

    def _statement(self, node: ast.stmt, ends: _Ends) -> _Ends:
        if isinstance(node, ast.If):
            return self._if(node, ends)
        if isinstance(node, (ast.While, ast.For, ast.AsyncFor)):
            return self._loop(node, ends)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            block = self._new([node, *node.items])
            self._connect(ends, block)
            return self._body(node.body, [(block, None)])
        if isinstance(node, ast.Try) or node.__class__.__name__ == "TryStar":
            return self._try(node, ends)  # type: ignore[arg-type]
        if isinstance(node, ast.Match):
            return self._match(node, ends)
        block = self._new([node])
        self._connect(ends, block)
        if isinstance(node, ast.Return):
            self._returns.append((block, None))
            return []
        if isinstance(node, ast.Raise):
            return []
        if isinstance(node, ast.Break) and self._loops:
            self._loops[-1][1].append((block, None))
            return []
        if isinstance(node, ast.Continue) and self._loops:
            self._connect([(block, None)], self._loops[-1][0])
            return []
        if isinstance(node, ast.Expr) and ends_program(node.value):
            return []
        return [(block, None)]

    def _if(self, node: ast.If, ends: _Ends) -> _Ends:
        block = self._new([node, node.test])
        self._connect(ends, block)
        block.test = node.test
        constant = constant_truth(node.test)
        taken: _Ends = [] if constant is False else [(block, True)]
        skipped: _Ends = [] if constant is True else [(block, False)]
        after = self._body(node.body, taken)
        return [*after, *(self._body(node.orelse, skipped) if node.orelse else skipped)]

    def _loop(self, node: ast.While | ast.For | ast.AsyncFor, ends: _Ends) -> _Ends:
        if isinstance(node, ast.While):
            head = self._new([node, node.test])
        else:
            iterable = self._new([node.iter])
            self._connect(ends, iterable)
            ends = [(iterable, None)]
            head = self._new([node, node.target])
        self._connect(ends, head)
        endless = isinstance(node, ast.While) and constant_truth(node.test) is True
        breaks: _Ends = []
        self._loops.append((head, breaks))
        self._connect(self._body(node.body, [(head, None)]), head)
        self._loops.pop()
        leave: _Ends = [] if endless else [(head, None)]
        return [*(self._body(node.orelse, leave) if node.orelse else leave), *breaks]

    def _try(self, node: ast.Try, ends: _Ends) -> _Ends:
        start = self._new([node])
        self._connect(ends, start)
        handlers = [self._new([handler]) for handler in node.handlers]
        # An exception may come before the first statement is done; after a `finally` alone it goes on.
        start.successors += [(handler, None) for handler in handlers]
        catch = list(handlers)
        final: Block | None = None
        if node.finalbody and not handlers:
            final = self._new(())
            catch = [final]
        self._handlers.append(catch)
        ends = self._body(node.body, [(start, None)])
        self._handlers.pop()
        ends = self._body(node.orelse, ends)
        for handler, block in zip(node.handlers, handlers, strict=True):
            ends = [*ends, *self._body(handler.body, [(block, None)])]
        if final is not None:
            ends = [*ends, (final, None)]
        if node.finalbody:
            returns, self._returns = self._returns, []
            ends = self._body(node.finalbody, ends or returns)
            self._returns = [*returns, *self._returns]
        return ends

    def _match(self, node: ast.Match, ends: _Ends) -> _Ends:
        subject = self._new([node, node.subject])
        self._connect(ends, subject)
        pending: _Ends = [(subject, None)]
        after: _Ends = []
        for case in node.cases:
            block = self._new([case])
            self._connect(pending, block)
            after += self._body(case.body, [(block, None)])
            irrefutable = case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            pending = [] if irrefutable else [(block, None)]
        return [*after, *pending]

    @cached_property
    def _tests(self) -> tuple[Condition, ...]:
        """The conditions that branches go by, and their parts."""
        conditions = [block.condition for block in self._blocks if block.condition is not None]
        return (*conditions, *(part for condition in conditions for part in condition.inner()))

    @cached_property
    def _repeated(self) -> frozenset[str]:
        """The conditions that are tested more than once, by themselves or as parts of others, or settled before."""
        tested = Counter(condition.text for condition in self._tests if condition.text)
        repeated = [text for text, count in tested.items() if count > 1][:_REMEMBERED_CONDITIONS]
        settled = sorted({text for facts in self._settling.values() for text, _ in facts})
        return frozenset([*repeated, *settled[:_REMEMBERED_CONDITIONS]])

    @cached_property
    def _settling(self) -> Mapping[Block, set[Fact]]:
        """By the block that sets a name of this body to a constant: the conditions that this settles."""
        settling: defaultdict[Block, set[Fact]] = defaultdict(set)
        for condition in self._tests:
            name = name_tested(condition.test) if condition.text else ""
            bindings = self.scope.bindings.get(name, ())
            if any(self._nested(binding.node) for binding in bindings):
                continue
            for binding in bindings:
                truth, block = truth_after(condition.test, binding), self._block_at(binding.node)
                if truth is not None and block is not None:
                    settling[block].add((condition.text, truth))
        return dict(settling)

    def _settled_at(self, start: ast.AST) -> Facts:
        """Return the conditions that are settled after `start`, by what alone may have bound their names there."""
        first = self._block_at(start)
        if first is None or not self._settling:
            return frozenset()
        facts = set(self._settling.get(first, ()))
        for condition in self._tests:
            name = name_tested(condition.test) if condition.text else ""
            bindings = self.scope.bindings.get(name, [])
            if not bindings or condition.text in self._forgetting.get(first, ()):
                continue
            coming = self._reach(name, bindings)[first.number]
            reaching = [self._block_at(each.node) for number, each in enumerate(bindings) if coming >> number & 1]
            made = [self._settling.get(block, set()) if block is not None else set() for block in reaching]
            common = set[Fact].intersection(*made) if made else set()
            facts.update(fact for fact in common if fact[0] == condition.text)
        return frozenset(facts)

    @cached_property
    def _forgetting(self) -> Mapping[Block, set[str]]:
        """By the block that binds a name or sets an attribute: the repeated conditions that read it, and may change."""
        conditions = {condition.text: condition.test for condition in self._tests if condition.text in self._repeated}
        forgetting: defaultdict[Block, set[str]] = defaultdict(set)
        for key, test in conditions.items():
            names = {node.id for node in walk(test) if isinstance(node, ast.Name)}
            attributes = {node.attr for node in walk(test) if isinstance(node, ast.Attribute)}
            changes = [binding.node for name in names for binding in self.scope.bindings.get(name, ())]
            changes += [change for name in attributes for change in self._index.attribute_changes.get(name, ())]
            for block in filter(None, map(self._block_at, changes)):
                forgetting[block].add(key)
        return dict(forgetting)

    # --- places -------------------------------------------------------------------------------------------------

    def _block_at(self, node: ast.AST) -> Block | None:
        current: ast.AST | None = node
        while current is not None:
            block = self._block_of.get(current)
            if block is not None:
                return block
            if current is self.scope.node:
                return None
            current = self._index.parents.get(current)
        return None

    def __contains__(self, node: ast.AST) -> bool:
        """Return whether `node` is evaluated in this body (nested functions stand as their definition)."""
        return self._block_at(node) is not None

    # --- paths --------------------------------------------------------------------------------------------------

    def path(self, start: ast.AST | None, goal: ast.AST | None, *, avoiding: Collection[ast.AST] = ()) -> bool:
        """Return whether execution can go from just after `start` to `goal` without evaluating a node of `avoiding`.

        None as `start` means the beginning of the body, None as `goal` its end. A condition tested twice with the
        same names is taken to have the same outcome both times, unless one of them was bound in between.
        """
        first = self.entry if start is None else self._block_at(start)
        last = self.exit if goal is None else self._block_at(goal)
        if first is None or last is None:
            return False
        barriers: dict[Block, list[ast.AST]] = {}
        for node in avoiding:
            block = self._block_at(node)
            if block is not None:
                barriers.setdefault(block, []).append(node)
        goal_order = order_of(goal) if goal is not None else None
        if start is not None:
            after = order_of(start)
            later = [order_of(node) for node in barriers.get(first, ()) if order_of(node) > after]
            if first is last and goal_order is not None and goal_order > after:
                return not any(order < goal_order for order in later)
            if later:
                return False
        queue = deque([(first, self._assumptions(start))])
        seen = set(queue)
        while queue:
            block, known = queue.popleft()
            for successor, truth in block.successors:
                learned = self._learn(block, truth, known)
                if learned is None:
                    continue
                forgotten = self._forgetting.get(successor, ())
                then = frozenset(fact for fact in learned if fact[0] not in forgotten) if forgotten else learned
                then |= {fact for fact in self._settling.get(successor, ()) if fact[0] in self._repeated}
                blocked = [order_of(node) for node in barriers.get(successor, ())]
                if successor is last and (goal_order is None or not any(order < goal_order for order in blocked)):
                    return True
                if blocked or (successor, then) in seen:
                    continue
                seen.add((successor, then))
                queue.append((successor, then))
        return False

    def _assumptions(self, start: ast.AST | None) -> Facts:
        """Return what must be true at `start`, since it stands inside branches, or constants were set before."""
        if start is None or not self._repeated:
            return frozenset()
        child: ast.AST = start
        facts = {fact for fact in self._settled_at(start) if fact[0] in self._repeated}
        for parent in self._index.ancestors(start):
            if parent is self.scope.node:
                break
            if isinstance(parent, ast.If) and child is not parent.test:
                condition = self._block_of[parent].condition if parent in self._block_of else None
                for fact in condition.facts(child in parent.body) if condition is not None else ():
                    if fact[0] in self._repeated and not self._rebinds(parent, fact[0]):
                        facts.add(fact)
            child = parent
        return frozenset(facts)

    def _rebinds(self, branches: ast.If, condition: str) -> bool:
        """Return whether a name that the condition reads is bound in one of its branches."""
        places = (node for block, keys in self._forgetting.items() if condition in keys for node in block.nodes)
        return any(branches in self._index.ancestors(place) for place in places)

    def _learn(self, block: Block, truth: bool | None, known: Facts) -> Facts | None:
        """Return what is known after leaving `block` along an edge, or None where that contradicts what was known."""
        if truth is None or block.condition is None or not self._repeated:
            return known
        if block.condition.outcome(known) is (not truth):
            return None
        return known.union(fact for fact in block.condition.facts(truth) if fact[0] in self._repeated)

    # --- definitions --------------------------------------------------------------------------------------------

    def definitions(self, name: ast.Name) -> tuple[Binding, ...]:
        """Return the bindings of this scope that can reach the load `name`, in source order."""
        bindings = self.scope.bindings.get(name.id, [])
        block = self._block_at(name)
        if len(bindings) == 1 or block is None or self._nested(name):
            return tuple(bindings)
        reaching = self._reach(name.id, bindings)[block.number]
        # A walrus or an assignment target may stand before the name in its own block.
        before = [
            binding
            for binding in (bindings if self._index.of_type(ast.NamedExpr) else ())
            if isinstance(self._index.parents.get(binding.node), ast.NamedExpr)
            and isinstance(binding.value, ast.expr)
            and self._block_at(binding.node) is block
            and order_of(binding.node) < order_of(name)
        ]
        if before:
            return (before[-1],)
        return tuple(binding for number, binding in enumerate(bindings) if reaching >> number & 1)

    def uses(self, binding: Binding) -> tuple[ast.Name, ...]:
        """Return the loads of the name that `binding` can reach, in source order, closures included."""
        uses = self._index.uses_in(self.scope, binding.name)
        return tuple(use for use in uses if binding in self.definitions(use))

    def _nested(self, node: ast.AST) -> bool:
        """Return whether `node` runs later, in a function or lambda inside this body."""
        child = node
        for parent in self._index.ancestors(node):
            if parent is self.scope.node:
                return False
            if isinstance(parent, ast.Lambda) and child is parent.body:
                return True
            if isinstance(parent, FUNCTIONS) and child in parent.body:
                return True
            child = parent
        return False

    def _reach(self, name: str, bindings: list[Binding]) -> list[int]:
        """Return for each block the bindings that reach it, one bit for each: bit 0 is the first of `bindings`."""
        cached = self._reaching.get(name)
        if cached is not None:
            return cached
        made: dict[int, int] = {}  # the last of each block: an augmented assignment replaces what was there too
        coming = [0] * len(self._blocks)
        for number, binding in enumerate(bindings):
            block = self._block_at(binding.node)
            if isinstance(binding.node, ast.arg) or block is None:
                coming[self.entry.number] |= 1 << number
            else:
                made[block.number] = 1 << number
        work = deque([self.entry])
        visited = {self.entry}
        while work:
            block = work.popleft()
            going = made.get(block.number, coming[block.number])
            for successor, _ in block.successors:
                known = coming[successor.number]
                if successor not in visited or going & ~known:
                    visited.add(successor)
                    coming[successor.number] = known | going
                    work.append(successor)
        self._reaching[name] = coming
        return coming

    # --- reading ------------------------------------------------------------------------------------------------

    def returns(self) -> Iterator[ast.Return]:
        """Yield the return statements of this body, nested functions left out."""
        for block in self._blocks:
            for node in block.nodes:
                if isinstance(node, ast.Return):
                    yield node
