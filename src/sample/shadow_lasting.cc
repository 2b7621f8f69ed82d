// SPDX-License-Identifier: MIT
//
// Replicas that go on after their first sample: what they are told, and what they share with the program.
#include <algorithm>

#include "base/log.h"
#include "sample/memory_use.h"
#include "sample/shadow_run.h"

namespace shadowprof::sample {
namespace {

constexpr double kLookAtMemory = 0.1;  // seconds
// Seconds, up to which the first replica may rest for another look at the neighbourhood, and for
// how long at least.
constexpr double kLastLookForRest = 2.0;
constexpr double kLeastRest = 0.001;
// Seconds between looks at the neighbourhood; later, of the run.
constexpr double kLookAtNeighbours = 0.05;
constexpr double kLookAtNeighboursAfter = 0.25;

}  // namespace

// While several live at a time it is not known whose page faults the program's are.
bool ShadowRun::may_go_on(const Sample& sample) const {
  return options_.later_samples && sample.budget.seconds > 0 && options_.max_shadows == 1 &&
         !sample.program->has_processor_quota();
}

std::optional<shadow::NextSample> ShadowRun::later_sample(const shadow::Execution& replica) {
  for (Sample& sample : samples_) {
    if (sample.executor.get() == &replica) return later_sample(sample);
  }
  return std::nullopt;
}

// Not of a program that is no more, or another one by now.
std::optional<shadow::NextSample> ShadowRun::later_sample(Sample& sample) {
  const shadow::Program& program = sample.program->program();
  const bool is_same = program.alive() && program.generation() == sample.generation;
  if (!is_same || !crowding_.at_idle_priority() || is_short_of_memory(*sample.program))
    return std::nullopt;
  look_at_core(sample);
  const ReplicaState replica = state_of(sample);
  auto next = later_.next(replica);
  governor_.disturbed(later_.take_loss());
  if (!next) return next;
  if (next->rest_s > 0) {
    sample.sample_began = elapsed() + next->rest_s;
    return next;
  }
  sample.numbers->go_on(replica.executed + next->native_s, sample.executor->counts());
  next->number = sample.numbers->number();
  sample.sample_began = elapsed() + next->native_s;
  return next;
}

ReplicaState ShadowRun::state_of(const Sample& sample) {
  SampledProcess& program = *sample.program;
  const double now = elapsed();
  ReplicaState replica;
  replica.recorded = sample.executor->counts().recorded_s;
  replica.age = now - sample.forked_at;
  const double copied = program.faults_of_ours(now);
  replica.cost = price_.copied * copied + crowding_.cost_of(sample.executor->processor_now().used);
  replica.unspent = governor_.unspent(now);
  replica.executed = sample.executor->guest_seconds() + sample.executor->counts().native_s;
  replica.whole_run = program.used();
  replica.elapsed = now;
  replica.used = replica.whole_run - sample.numbers->forked_at();
  replica.may_last = may_last(program);
  replica.slow_down = shared_core_.slow_down();
  if (is_about_neighbours(program) && looks_at_neighbours_ <= kLastLookForRest) {
    // The look comes first, when both are due.
    replica.rest = std::max(kLeastRest, looks_at_neighbours_ - now);
  }
  replica.next_costs = program.most_fork_cost(price_);
  const SampledProcess::NextFork next = program.next_fork(price_, copied);
  replica.next_may_cost = next.cost;
  replica.next_copies = next.bytes;
  return replica;
}

bool ShadowRun::may_last(const SampledProcess& program) const {
  return is_alone(program) && later_.may_last(crowding_.cost_of(1));
}

// Replicas follow all that it does.
bool ShadowRun::is_alone(const SampledProcess& program) const {
  return programs_.size() == 1 && program.program().thread_count() == 1;
}

// Samples may end a hundred times a second.
bool ShadowRun::is_short_of_memory(const SampledProcess& program) {
  if (elapsed() < looks_at_memory_) return memory_was_short_;
  looks_at_memory_ = elapsed() + kLookAtMemory;
  memory_was_short_ = memory_is_short(program.program().pid());
  return memory_was_short_;
}

// Replicas could last were it not for them.
bool ShadowRun::is_about_neighbours(const SampledProcess& program) const {
  return options_.later_samples && crowding_.at_idle_priority() && is_alone(program) &&
         later_.may_last(0) && !later_.may_last(crowding_.cost_of(1));
}

// Somebody else may have had the machine when that was measured first.
void ShadowRun::look_at_neighbours() {
  const double now = elapsed();
  looks_at_neighbours_ = now + std::max(kLookAtNeighbours, kLookAtNeighboursAfter * now);
  const ProgramRef program = choose();
  if (!program || !is_about_neighbours(*program)) return;
  const auto cost = cost_beside(program->program().pid(), options_.neighbours.alone);
  if (!cost || *cost >= crowding_.cost_of(1)) return;
  detail("a busy neighbour costs {:.1f} % (at {:.2f} s)", 100 * *cost, now);
  governor_.revise_disturbance(crowding_.measured_again(*cost));
}

// Whether that of a replica is the program's, as far as it matters.
void ShadowRun::look_at_core(const Sample& sample) {
  SampledProcess& program = *sample.program;
  if (!may_last(program) || !later_.would_rest(SharedCore::kMost)) return;
  const double pause = sample::look_at_core(shared_core_, sample.executor->tid(), program, elapsed());
  if (pause == 0) return;
  governor_.paused(pause);
  counts_.pauses.push_back(pause);
}

// One that has gone on in spite of that goes on.
void ShadowRun::rest_at_shared_core(const Sample& sample) {
  const bool was_shared = later_.would_rest(shared_core_.slow_down());
  look_at_core(sample);
  if (!was_shared && later_.would_rest(shared_core_.slow_down())) sample.executor->ask_anew();
}

}  // namespace shadowprof::sample
