"""Dataflow: the state of one cell and the step that moves it.

Tables, arrangements, compiled templates and windows; changes in, emissions out. Output up to t is a function of the
input up to t, however the input is cut into steps. It never reads a clock, opens a socket or knows of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.engine.checkpoint import (
    SavedState,
    SavedWindow,
    load_runs,
    pack_window,
    read_document,
    runs_inside,
    save_runs,
    saved_state,
    unpack_window,
)
from headwater.engine.emissions.edits import NOWHERE, RESULT, Block, EmissionBatch, Entry, Outbox
from headwater.engine.emissions.index import Ending
from headwater.engine.operators.derived import Derived
from headwater.engine.operators.failures import Failure, FailureChange
from headwater.engine.ranges.range_index import RangeIndex
from headwater.engine.ranges.ranges import wanted
from headwater.engine.ranking.rank import LimitRange
from headwater.engine.requeried.answers import Answers
from headwater.engine.rows.conform import TableSchema, conform
from headwater.engine.rows.delta import Delta, merge, since, until
from headwater.engine.rows.work import Work
from headwater.engine.state import persistence
from headwater.engine.state.arrangement import Arrangement
from headwater.engine.state.changelog import Changelog
from headwater.engine.state.shared_contents import share_contents, share_files
from headwater.engine.state.spill import Inside, spill
from headwater.engine.state.tally import Tally
from headwater.engine.windows.empty_groups import bucket, padded
from headwater.engine.windows.failures import AffectedGroups
from headwater.engine.windows.fan_out import spread
from headwater.engine.windows.ordered import Replay, outgrown, ranked_of
from headwater.engine.windows.pairs import Changes, changes_of
from headwater.engine.windows.params import (
    SPOILED,
    InstanceIndex,
    RowGroups,
    Window,
    WindowGroup,
    encode_instance,
    home_of,
    partition_of,
    partition_salt,
)
from headwater.engine.windows.row_identity import Multiset, key_hashes, row_hashes
from headwater.engine.windows.row_names import NO_NAMES, RowNames
from headwater.engine.windows.template_program import Program, Projection, identity_of
from headwater.engine.windows.unordered import linear
from headwater.fs.atomic_write import sync_directory
from headwater.model.encoding.keys import Uint64s
from headwater.model.errors import HeadwaterError, OverBudget, Poisoned
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.plan.planner import template_from_sql
from headwater.plan.template import Instance, Template

_FETCH_ROWS_MAX = 64  # a larger frame is read from its bucket at once
_MANY_ROWS = 1024  # from here on hashing whole columns beats hashing what was encoded, row by row

_GONE_CAME = np.array([False, True])

Bools = npt.NDArray[np.bool_]
Rows = Mapping[str, Iterable[pa.RecordBatch]]
Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class Live:
    """A template that is active: its program, its instances, and which of them ask for rows that fail beneath."""

    template: Template
    program: Program
    widths: Mapping[str, int]
    params: InstanceIndex
    spoiled: AffectedGroups


class Dataflow:
    """One cell's dataflow. `partition` is (q, Q): it keeps only what belongs to query partition q of Q."""

    def __init__(
        self, *, partition: tuple[int, int] = (0, 1), limits: Limits = DEFAULT, counters: Work | None = None
    ) -> None:
        self.partition = partition
        self.counters = counters or Work()
        self._limits = limits
        self._shapes: dict[str, TableSchema] = {}
        self._derived: dict[str, Derived] = {}
        self._multisets: dict[str, Multiset] = {}
        self._arrangements: dict[tuple[str, tuple[str, ...]], Arrangement] = {}
        self._live: dict[str, Live] = {}
        self._served: dict[tuple[str, tuple[str, ...]], list[Live]] = {}
        self._windows: dict[int, Window] = {}
        self._saved_windows = Changelog(self.counters)
        self._outbox = Outbox()
        self.answers = Answers(self._outbox, self.counters)

    @property
    def tables(self) -> dict[str, Table]:
        return {name: shape.table for name, shape in self._shapes.items()}

    def define(self, table: Table) -> None:
        """First sight of a table, or its new schema: columns appended, or turned ANY. Results do not change."""
        known = self._shapes.get(table.name)
        self._shapes[table.name] = TableSchema.of(table)
        if known is None or known.table == table:
            return
        for arrangement in self._arranged(table.name):
            arrangement.define(table)
        for live in self._live.values():
            if live.template.table == table.name:
                self._rebind(live, table)

    def reshaped(self, table: Table) -> list[str]:
        """The relations that cannot follow a table's new schema: a column they read has another type."""
        known = self._shapes.get(table.name)
        if known is None or known.table.columns == table.columns[: len(known.table.columns)]:
            return []
        return sorted(self._relations_over(table.name))

    def _relations_over(self, table: str) -> set[str]:
        """By the templates, not by what is kept: a cell may know a relation of which it holds nothing."""
        relations = (live.template for live in self._live.values() if live.template.relation is not None)
        return {template.table for template in relations if table in template.tables}

    def _rebind(self, live: Live, table: Table) -> None:
        """Sort keys may have become longer; what they say of the rows there are is the same."""
        live.template = template_from_sql(live.template.sql, table)
        live.program = Program(live.template, table)
        for group in live.params.groups.values():
            group.ranked = None
            self._hydrate(live, group)

    def drop(self, table: str, tx: int, reason: str, how: Ending = "closed") -> list[int]:
        """The instances that end with their table, or with a relation over it; each is told why."""
        over = self._relations_over(table)
        ended = [window for name in {table, *over} for window in self._drop(name, tx, reason, how)]
        return [window.instance.id for window in ended]

    def expel(self, name: str, tx: int, reason: str) -> None:
        """A table, a relation or one template ends here; what else is over the same rows goes on."""
        live = self._live.get(name)
        if live is None:
            self.drop(name, tx, reason)
            return
        for window in live.params.windows():
            self._end(window, tx, reason)
        self._retire(live)

    def _retire(self, live: Live) -> None:
        place = (live.template.table, live.template.keys)
        self._served[place] = [one for one in self._served[place] if one is not live]
        del self._live[live.template.id]

    def release(self, name: str) -> list[int]:
        """A template goes, with what is kept for it alone; the instances it still had end without a word."""
        live = self._live.get(name)
        if live is None:
            return []
        left = [window.instance.id for window in live.params.windows()]
        for instance in left:
            self.unsubscribe(instance)
        self._retire(live)
        self._let_go(live.template)
        return left

    def _let_go(self, gone: Template) -> None:
        """Of the rows that a template was made of, those that no other here needs. A table itself stays known."""
        over = [live.template for live in self._live.values() if live.template.table == gone.table]
        needed = {template.keys for template in over if self._owns(template)}
        if not needed:
            self._derived.pop(gone.table, None)
            self._multisets.pop(gone.table, None)
        elif gone.table in self._derived and not self._derived[gone.table].retains:
            needed.add(())  # its rows are nowhere else
        for place in [each for each in self._arrangements if each[0] == gone.table and each[1] not in needed]:
            del self._arrangements[place]
        if gone.relation is not None and not over:
            self._shapes.pop(gone.table, None)

    def _end(self, window: Window, tx: int, reason: str, how: Ending = "closed") -> None:
        entry = Entry(window.instance.id, tx, window.seq, how, window.group.template, reason)
        self._outbox.index.append(entry)
        self.unsubscribe(window.instance.id)

    def _drop(self, table: str, tx: int, reason: str, how: Ending) -> list[Window]:
        ended = [window for window in self._windows.values() if self._template(window).table == table]
        for window in ended:
            self._end(window, tx, reason, how)
        self._live = {id: live for id, live in self._live.items() if live.template.table != table}
        self._served = {place: each for place, each in self._served.items() if place[0] != table}
        self._arrangements = {place: each for place, each in self._arrangements.items() if place[0] != table}
        self._multisets.pop(table, None)
        self._shapes.pop(table, None)
        self._derived.pop(table, None)
        return ended

    def knows(self, template_id: str) -> bool:
        return template_id in self._live

    def needs_rows(self, template: Template) -> bool:
        """False when the rows are here already, or no instance of the template can live here."""
        if template.relation is not None:
            return self._owns(template) and template.table not in self._derived
        return self._owns(template) and (template.table, template.keys) not in self._arrangements

    def activate(self, template: Template, rows: Rows | None, widths: Mapping[str, int] | None = None) -> None:
        """`rows` are those of each table it reads, as they are now; None where `needs_rows` said no.

        A batch with a further column, `diff`, adds and takes away rows: changes made since the others were read.
        """
        if self.needs_rows(template) and rows is None:
            raise ValueError(f"activating {template.id} needs the rows of {', '.join(sorted(template.tables))}")
        if self._owns(template) and (template.table, template.keys) not in self._arrangements:
            whole = self._derive(template, rows) if template.relation is not None else (rows or {})[template.table]
            self._arrange(template, self._shapes[template.table].table, whole)
        self._enliven(template, widths)

    def adopt(self, template: Template, other: Dataflow) -> None:
        """As `activate`, where it needs rows: what `other`, which has come as far as we, made of them is ours now."""
        if template.relation is not None:
            self._share(other._derived[template.table])
        arrangement = other._arrangement(template)
        self._arrangements[template.table, template.keys] = arrangement
        self._recount(arrangement)
        self._enliven(template, None)

    def _enliven(self, template: Template, widths: Mapping[str, int] | None) -> None:
        table = self._shape_of(template)
        if template.id not in self._live:
            wide = self._widths(template) if widths is None else widths
            params = InstanceIndex(RangeIndex(template, self.counters) if template.selectors else None)
            spoiled = AffectedGroups(template, table, self._failed(template.table))
            live = self._live[template.id] = Live(template, Program(template, table), wide, params, spoiled)
            self._served.setdefault((template.table, template.keys), []).append(live)

    def _failed(self, name: str) -> list[Failure]:
        derived = self._derived.get(name)
        return [] if derived is None else derived.failed

    def _derive(self, template: Template, rows: Rows | None) -> Iterable[pa.RecordBatch]:
        """The rows of a relation: computed the first time, and known from then on."""
        if template.table in self._derived:
            whole = self._arrangements.get((template.table, ()))
            return [self._derived[template.table].rows() if whole is None else whole.all().rows]
        derived = self._new(template)
        loaded = derived.load(rows or {})
        self._share(derived)
        return loaded

    def _share(self, derived: Derived) -> None:
        """A relation that has come as far as the others here; rows that one of them has too are kept once."""
        others = (bag for other in self._derived.values() for bag in other.bags())
        share_contents(derived.bags(), others)
        self.define(derived.table)
        self._derived[derived.table.name] = derived

    def _widths(self, template: Template) -> dict[str, int]:
        """How many columns its base tables have now: those that come later are none of a relation's."""
        relation = template.relation is not None
        return {name: len(self._shapes[name].table.columns) for name in template.tables} if relation else {}

    def _new(self, template: Template) -> Derived:
        assert template.relation is not None
        retain = bool(template.keys)  # without keys its arrangement has every row
        return Derived(template.table, template.relation, self.tables, self.counters, self._limits, retain=retain)

    def _shape_of(self, template: Template) -> Table:
        """A cell that owns no instance of a template over a relation has nothing of the relation but its columns."""
        if template.relation is not None and template.table not in self._shapes:
            self.define(self._new(template).table)
        return self._shapes[template.table].table

    def _owns(self, template: Template) -> bool:
        """A template without keys lives in one partition; one with keys spreads over all."""
        q, count = self.partition
        return bool(template.keys) or home_of(template, count) == q

    def _arrange(self, template: Template, table: Table, rows: Iterable[pa.RecordBatch]) -> None:
        arrangement = Arrangement(table, template.keys, self.counters, self._limits.run_rows_min)
        multiset = None if table.key else self._new_multiset()
        parts = [self._hydrated(arrangement, multiset, batch) for batch in rows]
        if parts:
            hash, id, live, rows_here = parts[0] if len(parts) == 1 else _in_turn(parts)
            arrangement.absorb(hash, id, live, rows_here)
        self._arrangements[table.name, template.keys] = arrangement
        if multiset is not None:
            self._multisets[table.name] = multiset

    def _hydrated(
        self, arrangement: Arrangement, multiset: Multiset | None, batch: pa.RecordBatch
    ) -> tuple[Uint64s, Uint64s, Bools, pa.RecordBatch]:
        """Key hash, identity, whether it comes or goes, and row, of the rows that belong here."""
        table, live = arrangement.table, np.ones(batch.num_rows, np.bool_)
        if batch.num_columns > len(table.columns):
            live = np.asarray(batch.column(batch.num_columns - 1)) > 0
            batch = batch.select(range(batch.num_columns - 1))
        rows = conform(batch, table)
        id = key_hashes(table, rows) if multiset is None else multiset.follow(row_hashes(table, rows).exact, live)
        hash = arrangement.hash_rows(rows)
        mine = self._mine(arrangement, rows, hash)
        if mine is None:
            return hash, id, live, rows
        return hash[mine], id[mine], live[mine], rows.filter(pa.array(mine))

    def _mine(self, arrangement: Arrangement, rows: pa.RecordBatch, hash: Uint64s) -> Bools | None:
        """Which rows belong here: none with a NULL key, none of another partition. None for all."""
        q, count = self.partition
        keyed = arrangement.keyed(rows)
        if count == 1 or not arrangement.keys:
            return keyed
        salt = np.uint64(partition_salt(arrangement.table.name, arrangement.keys))
        here: Bools = (arrangement.folded(rows, hash) + salt) % np.uint64(count) == q
        return here if keyed is None else here & keyed

    def subscribe(self, instance: Instance, tx: int) -> bool:
        """Hydrates from the arrangement; the result is in the next take. False: it belongs to another partition."""
        live = self._live[instance.template]
        if instance.id in self._windows:
            self.snapshot(instance.id)
            return True
        if not self._belongs(live.template, instance):
            return False
        window = self._open(live, instance, tx)
        self._emit_whole(live, window)
        return True

    def _belongs(self, template: Template, instance: Instance) -> bool:
        q, count = self.partition
        return partition_of(template, instance, count) == q

    def _open(self, live: Live, instance: Instance, seq: int, prev: int = 0) -> Window:
        table = self._shapes[live.template.table].table
        more = wanted(live.template, instance, table) if live.template.selectors else None
        group = live.params.group(live.template.id, encode_instance(live.template, instance, table), more)
        if live.program.ordered and group.ranked is None:
            self._hydrate(live, group)
        end = (1 << 62) if instance.limit is None else instance.offset + instance.limit
        window = self._windows[instance.id] = live.params.open(
            instance, group, LimitRange(instance.offset, end), seq, prev
        )
        return window

    def _hydrate(self, live: Live, group: WindowGroup) -> tuple[Uint64s, Projection]:
        """Reads a group's rows; sets what the group remembers of them."""
        gathered = bucket(self._arrangement(live.template), live.template, group)
        ranks = live.program.ordered and group.ranked is None
        see = live.program.see
        seen = see(gathered.rows, gathered.id, to_sort=ranks) if len(gathered.id) else live.program.nothing
        group.failed = {int(gathered.id[row]): why for row, why in seen.failed.items()}
        if (reason := live.spoiled.reason(group)) is not None:
            group.failed[SPOILED] = reason
        group.note()
        group.size = int((seen.place >= 0).sum())
        if ranks:
            group.ranked = ranked_of(seen)
        return gathered.id, seen

    def unsubscribe(self, instance_id: int) -> None:
        window = self._windows.pop(instance_id, None)
        if window is not None:
            self._saved_windows.note(instance_id)
            self._live[window.group.template].params.close(window)
            if not self._windows:
                self._windows.clear()  # which lets go of the room for those that were there

    def snapshot(self, instance_id: int) -> None:
        """The full result again, under the seq and prev of the last emission."""
        window = self._windows.get(instance_id)
        if window is not None:
            self._emit_whole(self._live[window.group.template], window)

    def _emit_whole(self, live: Live, window: Window) -> None:
        """A result, or what stands in its place."""
        entry = Entry(window.instance.id, window.seq, window.prev, "result", live.template.id)
        if (entry.instance, entry.tx) in self._outbox.whole:
            return
        self._outbox.whole.add((entry.instance, entry.tx))
        hydrated = None if live.program.ordered else self._hydrate(live, window.group)
        if window.group.failed:
            self._outbox.index.append(entry._replace(kind="error", reason=window.group.error))
        elif (excess := outgrown(window, self._limits)) is not None:
            self._outbox.index.append(entry._replace(kind="closed", reason=excess))
            self.unsubscribe(window.instance.id)
        else:
            self._outbox.index.append(entry)
            block = _result_block(
                window, live.program.types, *(_listed(*hydrated) if hydrated else self._framed(live, window))
            )
            self._outbox.add(live.template.id, block)
            self.counters.emitted += len(block)

    def _framed(self, live: Live, window: Window) -> tuple[Uint64s, Int64s, pa.RecordBatch]:
        """The rows of an ordered window: identity, and place in a pool."""
        assert window.group.ranked is not None
        keys = window.group.ranked.slice(window.frame.start, window.frame.end)
        ids = np.array([identity_of(key) for key in keys], np.uint64)
        arrangement = self._arrangement(live.template)
        if len(keys) <= _FETCH_ROWS_MAX:
            hash = arrangement.hash(window.group.bucket)
            rows = arrangement.find([(hash, id) for id in ids.tolist()])
        else:
            gathered = arrangement.bucket(window.group.bucket)
            rows = gathered.rows.take(pa.array(np.searchsorted(gathered.id, ids)))
        return ids, np.arange(len(ids)), live.program.project(rows)

    def step(self, deltas: Mapping[str, Sequence[Delta]]) -> None:
        """Everything that waits, of any number of transactions, `tx` ascending within a table."""
        for name, parts in deltas.items():
            with blaming(name):
                self._step_table(name, parts)
        for name, derived in list(self._derived.items()):
            if not derived.base_tables.isdisjoint(deltas):
                with blaming(name):
                    self._step_derived(name, derived, deltas)

    def _step_derived(self, name: str, derived: Derived, deltas: Mapping[str, Sequence[Delta]]) -> None:
        """Who asks for a row that fails, as the origin would say, is in error until it has left. Meanwhile the rows are
        followed in silence."""
        delta = derived.step(deltas)
        for moment in derived.failures:
            delta = self._step_moment(name, delta, moment)
        if delta is not None:
            self._step_table(name, [delta])

    def _step_moment(self, name: str, delta: Delta | None, moment: FailureChange) -> Delta | None:
        """Takes what was before, and the transaction itself between what it spoils and what it mends."""
        over = [live for live in self._live.values() if live.template.table == name]
        came, gone = (_concerned(over, failures) for failures in (moment.came, moment.gone))
        if came:
            delta = self._step_until(name, delta, moment.tx)
        for live in over:
            for failure in moment.came:
                live.spoiled.add(failure)
        for live, group in came:
            self._spoil(live, group, moment.tx)
        if gone:
            delta = self._step_until(name, delta, moment.tx + 1)
        for live in over:
            for failure in moment.gone:
                live.spoiled.remove(failure)
        for live, group in gone:
            self._mend(live, group, moment.tx)
        return delta

    def _step_until(self, name: str, delta: Delta | None, tx: int) -> Delta | None:
        """Takes what was before `tx`; the rest is returned."""
        if delta is None:
            return None
        self._step_table(name, [until(delta, tx)])
        return since(delta, tx)

    def _spoil(self, live: Live, group: WindowGroup, tx: int) -> None:
        failing = bool(group.failed)
        self._note_spoiled(live, group)
        for window in group.windows if not failing else ():
            window.prev, window.seq = window.seq, tx
            entry = Entry(window.instance.id, tx, window.prev, "error", live.template.id, group.error)
            self._outbox.index.append(entry)

    def _mend(self, live: Live, group: WindowGroup, tx: int) -> None:
        self._note_spoiled(live, group)
        for window in list(group.windows) if not group.failed else ():
            window.prev, window.seq, window.names = window.seq, tx, NO_NAMES
            self._emit_whole(live, window)

    def _note_spoiled(self, live: Live, group: WindowGroup) -> None:
        reason = live.spoiled.reason(group)
        if reason is None:
            group.failed.pop(SPOILED, None)
        else:
            group.failed[SPOILED] = reason
        group.note()

    def _step_table(self, name: str, parts: Sequence[Delta]) -> None:
        arrangements = list(self._arranged(name))
        if arrangements and parts:
            changes = changes_of(self._shapes[name], merge(parts), self._multisets.get(name))
            for arrangement in arrangements:
                self._step(arrangement, changes)

    def _step(self, arrangement: Arrangement, changes: Changes) -> None:
        encoded = arrangement.encode(changes.rows)
        count = changes.rows.num_rows
        hash = arrangement.hash_rows(changes.rows) if count >= _MANY_ROWS else arrangement.hashes(encoded, count)
        mine = self._mine(arrangement, changes.rows, hash)
        for live in self._served.get((arrangement.table.name, arrangement.keys), ()):
            if live.params.selection is None:
                joined = live.params.join(encoded, hash, mine)
            else:
                joined = live.params.select(changes.rows, arrangement.table, encoded, mine)
            if joined is not None:
                with blaming(live.template.id):
                    self._advance(live, arrangement, changes, joined)
        _absorb(arrangement, changes, hash, mine)

    def _advance(self, live: Live, arrangement: Arrangement, changes: Changes, joined: RowGroups) -> None:
        if live.template.empty is not None:
            changes, origin = padded(changes, live.template, arrangement.table)
            joined = RowGroups(joined.number[origin], live.params)
        seen = live.program.see(changes.rows, changes.id, joined.looked())
        if joined.rows is not None:
            changes, seen = spread(changes, seen, joined.rows, joined.number)
        before = sum(len(block) for block in self._outbox.blocks[live.template.id])
        by_turns = live.program.ordered or live.program.veiled or self._troubled(joined, seen, len(changes))
        if by_turns or not linear(live.program, changes, joined, seen, self._outbox):
            replay = Replay(live.program, arrangement, changes, joined, seen, self._outbox, self._limits)
            closed = replay.run()
            for group in () if live.program.ordered else joined.asked():
                group.note()
            for window in closed:
                self.unsubscribe(window.instance.id)
        self.counters.emitted += sum(len(block) for block in self._outbox.blocks[live.template.id]) - before

    def _troubled(self, joined: RowGroups, seen: Projection, count: int) -> bool:
        """Whether a window is in error or may become so, may outgrow its limit within this step, or has names."""
        room = self._limits.result_rows_max - count
        return bool(seen.failed) or joined.troubled(room)

    def take(self) -> EmissionBatch:
        """What was emitted since the last take."""
        return self._outbox.take()

    def save(self, directory: Path) -> SavedState:
        """Writes the runs not yet written, and keeps of all only so much in memory as the limit allows. Take what was
        emitted first: it is not part of the state."""
        files = {place: save_runs(each, directory) for place, each in self._arrangements.items()}
        derived = {name: each.save(directory) for name, each in self._derived.items()}
        counts = self._save_counts(directory)
        windows, answers = self._save_windows(directory), self.answers.save(directory)
        share_files(bag for each in self._derived.values() for bag in each.bags())
        spill(self.inside(directory), self._limits.state_bytes_max)
        return saved_state(self.tables, files, derived, counts, (windows, answers), self._live.values())

    def _save_windows(self, directory: Path) -> list[str]:
        """Of all windows only those that opened, ended or moved since the last time are written."""
        for live in self._live.values():
            self._saved_windows.note(*live.params.take_unsaved())
        return self._saved_windows.save(self._packed_window, directory)

    def _packed_window(self, instance_id: int) -> bytes | None:
        window = self._windows.get(instance_id)
        return None if window is None else pack_window(window)

    def _save_counts(self, directory: Path) -> dict[str, list[str]]:
        """The files that say how often each row of a key-less table is there."""
        unsaved = any(run.file is None for each in self._multisets.values() for run in each.tally.runs)
        counts = {name: persistence.save(each.tally, directory) for name, each in self._multisets.items()}
        if unsaved:
            sync_directory(directory)
        return counts

    def inside(self, directory: Path) -> Iterator[Inside]:
        """The runs that were saved and are in memory still."""
        for arrangement in self._arrangements.values():
            yield from runs_inside(arrangement, directory)
        for derived in self._derived.values():
            yield from derived.inside(directory)
        for multiset in self._multisets.values():
            yield from persistence.runs_inside(multiset.tally, directory)

    @classmethod
    def load(
        cls,
        directory: Path,
        document: bytes,
        *,
        partition: tuple[int, int] = (0, 1),
        limits: Limits = DEFAULT,
        counters: Work | None = None,
    ) -> Dataflow:
        """The dataflow that was saved. Windows are read from the arrangements; nothing is emitted."""
        state = read_document(document)
        flow = cls(partition=partition, limits=limits, counters=counters)
        for table in state.tables:
            flow.define(table)
        for table_name, keys, files in state.arrangements:
            table = flow._shapes[table_name].table
            arrangement = Arrangement(
                table, keys, flow.counters, limits.run_rows_min, load_runs(directory, files, table)
            )
            flow._arrangements[table_name, keys] = arrangement
        for name, counts in state.counts.items():
            multiset = flow._multisets[name] = flow._new_multiset()
            persistence.restore(multiset.tally, directory, counts)
        for sql, widths in state.templates:
            flow._reactivate(sql, widths, directory, state.derived)
        for _, packed in flow._saved_windows.load(directory, state.windows):
            flow._reopen(unpack_window(packed))
        flow._hydrate_unordered()
        flow.answers.load(directory, state.answers)
        return flow

    def _reopen(self, saved: SavedWindow) -> None:
        live = self._live[saved.instance.template]
        window = self._open(live, saved.instance, saved.seq, saved.prev)
        window.names = RowNames(saved.names) if saved.names else NO_NAMES
        window.group.note()
        window.slots.records["unsaved"][window.slot] = False

    def _reactivate(self, sql: str, widths: Mapping[str, int], directory: Path, derived: Mapping[str, bytes]) -> None:
        """Bound to its tables as they were: without a key, all columns of a row say which one it is."""
        template = template_from_sql(sql, {name: _narrow(table, widths) for name, table in self.tables.items()})
        if template.table in derived and template.table not in self._derived:
            self._derived[template.table] = restored = self._new(template)
            restored.restore(directory, derived[template.table])
        self.activate(template, None, widths)

    def _recount(self, arrangement: Arrangement) -> None:
        """How often a key-less row is there; rows in no arrangement are in no result either."""
        if not arrangement.table.key:
            multiset = self._multisets.setdefault(arrangement.table.name, self._new_multiset())
            multiset.recount(row_hashes(arrangement.table, arrangement.all().rows).exact)

    def _new_multiset(self) -> Multiset:
        return Multiset(Tally(1, self.counters))

    def _hydrate_unordered(self) -> None:
        for live in self._live.values():
            for group in live.params.groups.values():
                if group.ranked is None:
                    self._hydrate(live, group)

    def _arranged(self, table: str) -> Iterator[Arrangement]:
        return (each for (name, _), each in self._arrangements.items() if name == table)

    def _arrangement(self, template: Template) -> Arrangement:
        return self._arrangements[template.table, template.keys]

    def _template(self, window: Window) -> Template:
        return self._live[window.group.template].template


def _concerned(lives: Sequence[Live], failures: Sequence[Failure]) -> list[tuple[Live, WindowGroup]]:
    """The groups that ask for rows that fail, each once."""
    found = ((live, group) for live in lives for one in failures for group in live.spoiled.groups(one, live.params))
    return list({(live.template.id, group.key): (live, group) for live, group in found}.values())


def _narrow(table: Table, widths: Mapping[str, int]) -> Table:
    return replace(table, columns=table.columns[: widths.get(table.name)])


def _in_turn(
    parts: Sequence[tuple[Uint64s, Uint64s, Bools, pa.RecordBatch]],
) -> tuple[Uint64s, Uint64s, Bools, pa.RecordBatch]:
    hash, id, live = (np.concatenate([part[n] for part in parts]) for n in range(3))
    return hash, id, live, pa.concat_batches([part[3] for part in parts])


@contextmanager
def blaming(name: str) -> Iterator[None]:
    """A bug of ours, or too much work, is told with the name of what was being stepped; the innermost name counts."""
    try:
        yield
    except OverBudget as error:
        raise Poisoned(name, error) from error
    except HeadwaterError:
        raise
    except Exception as error:
        raise Poisoned(name, error) from error


def _absorb(arrangement: Arrangement, changes: Changes, hash: Uint64s, mine: Bools | None) -> None:
    """The step's rows into the arrangement, in time order: what left a transaction before what came."""
    if len(changes) == 1:
        order, live = np.concatenate((changes.old, changes.new)), _GONE_CAME
    else:
        order, live = _in_time(changes)
    kept = order >= 0 if mine is None else (order >= 0) & mine[order]
    order, live = order[kept], live[kept]
    arrangement.absorb(hash[order], changes.id[order], live, changes.rows, order)


def _in_time(changes: Changes) -> tuple[Int64s, Bools]:
    order = np.concatenate((changes.old, changes.new))
    live = np.repeat(np.array([False, True]), len(changes))
    time = np.lexsort((live, np.concatenate((changes.tx, changes.tx))))
    return order[time], live[time]


def _named(names: RowNames, id: Uint64s) -> Uint64s:
    return np.array([names.of(each) for each in id.tolist()], np.uint64) if names.kept else id


def _listed(id: Uint64s, seen: Projection) -> tuple[Uint64s, Int64s, pa.RecordBatch]:
    inside = seen.place >= 0
    return (id, seen.place, seen.pool) if inside.all() else (id[inside], seen.place[inside], seen.pool)


def _result_block(window: Window, types: tuple[Type, ...], id: Uint64s, places: Int64s, pool: pa.RecordBatch) -> Block:
    count = len(id)
    nowhere = np.full(count, NOWHERE, np.int64)
    return Block(
        np.full(count, window.instance.id, np.int64),
        np.full(count, window.seq, np.int64),
        np.full(count, RESULT, np.int8),
        np.zeros(count, np.uint64),
        _named(window.names, id),
        nowhere,
        np.arange(count),
        nowhere,
        places,
        pool,
        types,
    )
