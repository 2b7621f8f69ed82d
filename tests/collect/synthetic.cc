// SPDX-License-Identifier: MIT
#include "synthetic.h"

#include <algorithm>
#include <string>

namespace shadowprof::test {

using trace::RunExit;
using trace::Terminator;
using trace::Word;

namespace {

size_t pick(std::mt19937_64& random, size_t n) {
  return static_cast<size_t>(random() % n);
}

}  // namespace

Program::Program(uint64_t seed, ProgramOptions options) {
  std::mt19937_64 random(seed);
  std::vector<size_t> sizes;
  size_t total = 0;
  for (size_t f = 0; f < options.functions; f++) {
    sizes.push_back(6 + pick(random, options.max_function_insns) / 2 * 2);
    functions.push_back(total);
    total += sizes.back();
  }
  for (size_t f = 0; f < options.functions; f++) {
    const size_t first = functions[f];
    const bool handler = f + 1 == options.functions;
    for (size_t i = 0; i < sizes[f]; i++) {
      Insn insn;
      insn.size = static_cast<uint32_t>(1 + pick(random, 7));
      // Targets are plain instructions, so a trace can always stop soon after a branch; and the
      // first ones are plain, lest a function be taken for a procedure linkage stub.
      const size_t kind = i % 2 == 0 || i < 3 ? 24 : pick(random, 12);
      const auto inside = [&] {
        const size_t target = first + pick(random, sizes[f] / 2) * 2;
        return target == first + i + 1 ? first : target;
      };
      // Calls go to later functions, or (rarely) to itself; handlers call nobody.
      const auto callee = [&] { return functions[f + pick(random, options.functions - 1 - f)]; };
      if (i + 1 == sizes[f] || kind == 0) {
        insn.op = Op::ret;
      } else if (kind <= 4) {
        insn.op = Op::conditional;
        insn.targets = {inside()};
      } else if (kind == 5) {
        insn.op = Op::jump;
        insn.targets = {inside()};
      } else if (kind == 6) {
        insn.op = Op::indirect_jump;
        insn.targets = {inside(), inside()};
        // Not to the function's start: that would be taken for a tail call to itself.
        for (size_t& t : insn.targets) t = std::max(t, first + 1);
      } else if (kind <= 8 && !handler) {
        insn.op = Op::call;
        insn.targets = {callee()};
      } else if (kind == 9 && !handler) {
        insn.op = Op::indirect_call;
        insn.targets = {callee(), callee(), callee()};
      } else if (kind == 10) {
        insn.op = Op::syscall;
      } else if (kind == 11) {
        insn.op = Op::native;
      }
      insns.push_back(insn);
    }
  }
  restorer = insns.size();
  insns.push_back({0, 7, Op::plain, {}});
  insns.push_back({0, 2, Op::syscall, {}});
  uint64_t address = kBase;
  for (Insn& insn : insns) {
    insn.address = address;
    address += insn.size;
  }
}

size_t Program::index_at(uint64_t address) const {
  const auto it = std::lower_bound(insns.begin(), insns.end(), address,
                                   [](const Insn& i, uint64_t a) { return i.address < a; });
  return static_cast<size_t>(it - insns.begin());
}

namespace {

// The interpreter: one instruction at a time, with a real stack.
class Interpreter {
 public:
  Interpreter(const Program& program, uint64_t seed, unsigned signal_every, Execution& out)
      : program_(program), out_(out), own_(seed), signals_(seed + 1), signal_every_(signal_every) {
    out_.truth.executed.assign(program.insns.size(), 0);
    enter(program.functions[0], kNowhere, kNowhere);
  }

  void run(size_t limit) {
    size_t at = program_.functions[0];
    for (size_t n = 0; at != kNowhere && (!may_stop_ || (n < limit && stack_.size() < 300)); n++) {
      if (signal_every_ != 0 && signals_() % signal_every_ == 0) handle_signal();
      at = step(at, own_);
    }
    while (!stack_.empty()) leave();
  }

 private:
  static constexpr size_t kNowhere = ~size_t{0};
  struct Activation {
    size_t callee, site, returns_to;
    uint64_t began;
    bool outermost;
  };

  void enter(size_t callee, size_t site, size_t returns_to) {
    const bool active = std::any_of(stack_.begin(), stack_.end(),
                                    [&](const Activation& a) { return a.callee == callee; });
    stack_.push_back({callee, site, returns_to, out_.truth.total, !active});
    out_.truth.entries[address(callee)].first++;
    if (site != kNowhere) out_.truth.calls[{address(site), address(callee)}].first++;
  }
  void leave() {
    const Activation a = stack_.back();
    stack_.pop_back();
    if (!a.outermost) return;
    const uint64_t insns = out_.truth.total - a.began;
    out_.truth.entries[address(a.callee)].second += insns;
    if (a.site != kNowhere) out_.truth.calls[{address(a.site), address(a.callee)}].second += insns;
  }
  uint64_t address(size_t insn) const { return program_.insns[insn].address; }

  void handle_signal() {
    const size_t handler = program_.functions.back();
    const size_t depth = stack_.size();
    const bool interrupted_call = after_call_;
    out_.steps.push_back({ExecutedStep::signal_delivered, 0, 0});
    enter(handler, kNowhere, program_.restorer);
    size_t at = handler;
    // A handler that does not end by itself is left alone at its next instruction.
    for (size_t n = 0; at != program_.restorer && (!may_stop_ || n < 500); n++)
      at = step(at, signals_);
    if (at == program_.restorer)
      for (size_t i = 0; i < 2; i++) step(program_.restorer + i, signals_);
    while (stack_.size() > depth) leave();
    // An activation that has executed nothing yet begins after the handler.
    if (interrupted_call) stack_.back().began = out_.truth.total;
    after_call_ = interrupted_call;
    out_.steps.push_back({ExecutedStep::signal_returned, 0, 0});
  }

  // Executes one instruction; returns the next one.
  size_t step(size_t at, std::mt19937_64& random) {
    const Insn& insn = program_.insns[at];
    Truth& truth = out_.truth;
    truth.executed[at]++;
    truth.total++;
    size_t next = at + 1;
    const char* kind = nullptr;
    switch (insn.op) {
      case Op::plain:
      case Op::syscall:
      case Op::native:
        break;
      case Op::conditional:
        kind = "not_taken";
        if (random() % 3 != 0) break;
        kind = "taken";
        next = insn.targets[0];
        break;
      case Op::jump:
        kind = "jump";
        next = insn.targets[0];
        break;
      case Op::indirect_jump:
        kind = "indirect_jump";
        next = insn.targets[pick(random, insn.targets.size())];
        break;
      case Op::call:
      case Op::indirect_call:
        kind = insn.op == Op::call ? "call" : "indirect_call";
        next = insn.targets[pick(random, insn.targets.size())];
        enter(next, at, at + 1);
        break;
      case Op::ret:
        kind = "ret";
        next = stack_.back().returns_to;
        // The handler's activation ends with rt_sigreturn.
        if (next != program_.restorer) leave();
        break;
    }
    if (kind != nullptr && next != kNowhere) truth.edges[{address(at), address(next), kind}]++;
    out_.steps.push_back({ExecutedStep::insn, at, next});
    may_stop_ = insn.op == Op::plain;
    after_call_ = insn.op == Op::call || insn.op == Op::indirect_call;
    return next;
  }

  const Program& program_;
  Execution& out_;
  std::mt19937_64 own_, signals_;
  unsigned signal_every_;
  bool after_call_ = false;
  bool may_stop_ = true;  // a branch whose target never executes is no edge in a trace
  std::vector<Activation> stack_;
};

Terminator terminator_of(Op op) {
  switch (op) {
    case Op::plain:
      return Terminator::none;
    case Op::conditional:
      return Terminator::conditional;
    case Op::jump:
      return Terminator::jump;
    case Op::call:
      return Terminator::call;
    case Op::indirect_call:
      return Terminator::indirect_call;
    case Op::indirect_jump:
      return Terminator::indirect_jump;
    case Op::ret:
      return Terminator::ret;
    case Op::syscall:
      return Terminator::syscall;
    case Op::native:
      return Terminator::native;
  }
  return Terminator::none;
}

RunExit exit_of(Op op, bool taken) {
  switch (op) {
    case Op::plain:
      return RunExit::split;
    case Op::conditional:
      return taken ? RunExit::taken : RunExit::not_taken;
    case Op::jump:
      return RunExit::jump;
    case Op::call:
      return RunExit::call;
    case Op::indirect_call:
      return RunExit::indirect_call;
    case Op::indirect_jump:
      return RunExit::indirect_jump;
    case Op::ret:
      return RunExit::ret;
    case Op::syscall:
      return RunExit::syscall;
    case Op::native:
      return RunExit::native;
  }
  return RunExit::split;
}

}  // namespace

Execution execute(const Program& program, uint64_t seed, size_t steps, unsigned signal_every) {
  Execution result;
  Interpreter(program, seed, signal_every, result).run(steps);
  return result;
}

Engine::Engine(const Program& program, EngineOptions options)
    : program_(program), options_(options) {
  trace::Module module;
  module.path = "/made/up";
  module.range = {GuestAddr(kBase), GuestAddr(kBase + 0x100000)};
  module.file_start = GuestAddr(kBase - 0x1000);
  module.inode = 5;
  module_ = table.add_module(module);
}

const Engine::Static& Engine::block_at(size_t insn) {
  const auto [it, fresh] = blocks_.try_emplace(insn);
  if (!fresh) return it->second;
  size_t last = insn;
  while (program_.insns[last].op == Op::plain && last + 1 < program_.insns.size() &&
         last + 1 - insn < options_.max_block_insns)
    last++;
  const Insn& end = program_.insns[last];
  trace::Block block;
  block.start = GuestAddr(program_.insns[insn].address);
  block.end = GuestAddr(end.address + end.size);
  block.last_insn = GuestAddr(end.address);
  block.module = module_;
  block.insns = static_cast<uint16_t>(last - insn + 1);
  block.terminator = terminator_of(end.op);
  it->second = {table.add_block(block), insn, last};
  return it->second;
}

RunId Engine::run(const std::vector<size_t>& starts, RunExit exit, uint64_t target,
                  unsigned last_insns) {
  const auto [it, fresh] = runs_.try_emplace({starts, exit, target, last_insns});
  if (!fresh) return it->second;
  trace::Run run;
  std::vector<BlockId> blocks;
  for (size_t start : starts) {
    const Static& block = block_at(start);
    blocks.push_back(block.id);
    run.insns += static_cast<uint32_t>(block.last - block.first + 1);
  }
  const trace::Block& last = table.block(blocks.back());
  run.exit = exit;
  run.last_block_insns = last.insns;
  if (exit == RunExit::interrupted) {
    run.insns -= last.insns - last_insns;
    run.last_block_insns = static_cast<uint16_t>(last_insns);
  }
  if (!trace::is_indirect(exit) && exit != RunExit::indirect_call) run.target = GuestAddr(target);
  std::vector<trace::Slot> slots;
  if (options_.extra_words != 0 && table.run_count() % options_.extra_words == 0)
    slots.push_back({trace::SlotKind::value, 0, 0});
  it->second = table.add_run(run, blocks, slots);
  return it->second;
}

std::vector<Word> Engine::trace(const Execution& execution) {
  std::vector<Word> words;
  std::vector<size_t> starts;  // blocks of the current run
  size_t at = 0;               // next instruction within the last of them
  const auto emit = [&](RunExit exit, uint64_t target, unsigned last_insns) {
    const RunId id = run(starts, exit, target, last_insns);
    words.push_back(id.value);
    for (unsigned w = 1; w < table.run(id).words; w++) words.push_back(0xdddddddd);
    starts.clear();
  };
  const auto interrupt = [&] {
    if (starts.empty()) return;
    const size_t executed = at - starts.back();
    if (executed != 0) {
      emit(RunExit::interrupted, 0, static_cast<unsigned>(executed));
      return;
    }
    starts.pop_back();
    if (starts.empty()) return;
    const Static& before = block_at(starts.back());
    const bool conditional = program_.insns[before.last].op == Op::conditional;
    emit(conditional ? RunExit::not_taken : RunExit::split, program_.insns[at].address, 0);
  };
  for (const ExecutedStep& step : execution.steps) {
    if (step.kind != ExecutedStep::insn) {
      interrupt();
      words.push_back(trace::special_word(trace::SpecialKind::gap, 2));
      words.push_back(static_cast<Word>(step.kind == ExecutedStep::signal_delivered
                                            ? trace::GapReason::signal_delivered
                                            : trace::GapReason::signal_returned));
      continue;
    }
    if (starts.empty()) starts.push_back(step.at);
    at = step.at + 1;
    if (step.at != block_at(starts.back()).last) continue;
    const Op op = program_.insns[step.at].op;
    const bool falls = step.next == step.at + 1;
    const bool may_go_on = op == Op::conditional || op == Op::plain;
    if (may_go_on && falls && starts.size() < options_.max_fragment_blocks) {
      starts.push_back(step.next);
      continue;
    }
    const uint64_t target =
        step.next < program_.insns.size() ? program_.insns[step.next].address : 0;
    emit(exit_of(op, !falls), target, 0);
  }
  interrupt();
  return words;
}

}  // namespace shadowprof::test
