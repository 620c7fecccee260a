"""Is the user told when the engine is compiled, and only then?"""

from mcage.campaign.progress import Silent
from mcage.engines.numba_engine.jit import nested, telling_of_compilation
from mcage.engines.numba_engine.linking import Dispatcher
from mcage.spec import SweepSpec
from mcage.sweep import run


def jitted():
    def double(number):
        return 2 * number

    return Dispatcher(double, targetoptions={"nopython": True})


def test_compilation_is_told_of_once():
    told = []
    with telling_of_compilation(lambda: told.append(True)):
        assert not told
        jitted()(1)
        jitted()(1)
        assert told == [True]
    jitted()(1)
    assert told == [True]


def test_machine_code_that_is_there_is_not_told_of():
    told, function = [], jitted()
    function(1)
    with telling_of_compilation(lambda: told.append(True)):
        function(1)
    assert not told


def test_a_constant_compiles_nothing_more():
    @nested
    def add(left, right):
        return left + right

    def twice(number):
        return add(add(number, 1), number)

    assert Dispatcher(twice, targetoptions={"nopython": True})(4) == 9
    assert len(add.signatures) == 1


def test_a_sweep_says_that_the_engine_is_compiled(monkeypatch, tmp_path):
    class Lines(Silent):
        said = ()

        def say(self, message):
            self.said += (message,)

    def compile_something(*arguments, **options):
        jitted()(1)

    monkeypatch.setattr(run, "run_campaign", compile_something)
    lines = Lines()
    spec = SweepSpec.from_mapping({"instances": 1, "workload": {"kernels": ["MatrixTranspose"]}})
    run.run_sweep(spec, tmp_path / "r.h5", engine="numba", progress=lines)
    assert sum("the engine is compiled first" in line for line in lines.said) == 1
