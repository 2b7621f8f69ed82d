// SPDX-License-Identifier: MIT
//
// What is known when the next step is chosen, and what replicas that go on share with the program.
#include <algorithm>

#include "base/log.h"
#include "probe/idle_core.h"
#include "probe/memory_use.h"
#include "sample/shadow_run.h"

namespace shadowprof::sample {
namespace {

constexpr double kLookAtMemory_s = 0.1;
// Up to then the first replica may rest for another look at what a busy core costs, and so long at
// least.
constexpr double kLastLookForRest_s = 2;
constexpr double kLeastRest_s = 0.001;
// Between looks at what a busy core costs; later, as a share of the run.
constexpr double kLookAtBusyCore_s = 0.05;
constexpr double kLookAtBusyCoreAfterShare = 0.25;

}  // namespace

plan::Prices ShadowRun::prices() const {
  plan::Prices prices;
  prices.page_copied_s = price_.copied;
  prices.page_kept_s = price_.kept;
  prices.busy_core_share = crowding_.cost_of(1);
  const auto loss = options_.prices ? options_.prices->cache_neighbour_loss() : std::nullopt;
  if (loss) prices.take_cache_neighbour(*loss);
  prices.take_warm_gain(warm_gain().ratio());
  return prices;
}

shadow::WarmGain ShadowRun::warm_gain() const {
  shadow::WarmGain gain = counts_.warm_gain;
  for (const Sample& sample : samples_)
    if (!sample.has_ended) gain += sample.executor->counts().warm_gain;
  return gain;
}

// That of the next sample, as far as is known; which of several programs runs is asked when it
// begins.
ShadowRun::ProgramRef ShadowRun::candidate() const {
  const auto known = std::ranges::find(programs_, candidate_);
  return known == programs_.end() ? programs_.front() : *known;
}

ShadowRun::Sample* ShadowRun::idle_sample() {
  const auto idle = std::ranges::find_if(
      samples_, [](const Sample& sample) { return sample.executor->is_idle(); });
  return idle == samples_.end() ? nullptr : &*idle;
}

plan::Situation ShadowRun::situation() {
  Sample* const idle = idle_sample();
  if (idle) look_at_core(*idle);
  const ProgramRef program = idle ? idle->program : candidate();
  plan::Situation s;
  s.now_s = elapsed();
  s.used_s = used_s(*program);
  s.replicas = samples_.size();
  s.most_replicas = crowding_.shadows();
  s.can_be_followed = is_alone(*program);
  s.shared_core_share = shared_core_.slow_down_share();
  s.fork_variance = fork_variance_;
  s.burst_variance = burst_variance_;
  const double copied_pages = idle ? program->faults_of_ours(s.now_s) : 0;
  s.resident_pages = program->resident_pages();
  s.written_pages = program->written_pages(copied_pages);
  s.resembles_last_fork = program->resembles_last_fork();
  s.writes_same_pages = program->writes_same_pages();
  if (idle) {
    s.idle = idle_replica(*idle, copied_pages, s.now_s);
    s.may_give_later_samples = options_.later_samples && options_.sample_size == 0;
    if (is_about_busy_core(*program) && looks_at_busy_core_s_ <= kLastLookForRest_s) {
      // The look comes first, when both are due.
      s.measures_contention_at_s = std::max(looks_at_busy_core_s_, s.now_s + kLeastRest_s);
    }
    charge_for_work(*idle, s);
    return s;
  }
  s.core_is_idle = core_is_idle_ = may_have_core(*program, s.now_s);
  s.may_fork = options_.burst_length_s == 0 && s.now_s >= forks_again_at_;
  const double pays_at_s = ledger_.lends_at_s(plan::expected_fork_s(s, prices()));
  interprets_ = !s.may_fork || pays_at_s > s.now_s + kSeldom_s;
  // Not where samples are asked for one by one, or by their size, if they can be had.
  const bool is_free = options_.later_samples && options_.sample_size == 0;
  s.may_burst =
      options_.may_interpret && may_burst_beside_replicas(program) && (is_free || interprets_);
  s.may_peek = options_.prefill && samples_.empty() && core_is_idle_ &&
               !(interprets_ && options_.may_interpret);
  const bool waits = interprets_ && s.may_fork && samples_.empty();
  if (waits && !options_.may_interpret) tell_of_wait(s, pays_at_s - s.now_s);
  return s;
}

// For a replica, if that needs one. This is asked at each report of the program's, and looks at
// /proc.
bool ShadowRun::may_have_core(SampledProcess& program, double now) {
  if (!samples_.empty() || !crowding_.at_idle_priority()) return true;
  if (now < looks_for_core_at_s_) return core_is_idle_;
  looks_for_core_at_s_ = now + plan::kBetweenLooksForCore_s;
  return probe::may_have_idle_core(program.program().pid());
}

plan::IdleReplica ShadowRun::idle_replica(const Sample& sample, double copied_pages, double now) {
  plan::IdleReplica replica;
  const shadow::ExecutorCounts& done = sample.executor->counts();
  replica.age_s = now - sample.forked_at;
  replica.pause_s = sample.life.pause_s;
  replica.recorded_s = done.recorded_s;
  replica.executed_s = executed_seconds(sample);
  replica.used_s = sample.program->used() - sample.numbers->forked_at();
  replica.copied_pages = copied_pages;
  replica.cost_s =
      price_.copied * copied_pages + crowding_.cost_of(sample.executor->processor_now().used);
  // Its program is no more, or another one by now.
  const shadow::Program& program = sample.program->program();
  replica.is_obsolete = !program.alive() || program.generation() != sample.generation ||
                        !crowding_.at_idle_priority() || is_short_of_memory(*sample.program);
  return replica;
}

// Once for the time that it worked, which is returned.
double ShadowRun::charge_for_caches(Sample& sample, double age_s, double copied_pages) {
  if (!std::exchange(sample.has_worked, false)) return 0;
  const double worked_s = age_s - sample.went_on_age;
  const double executed_s = executed_seconds(sample) - sample.executed_before_s;
  ledger_.spend(plan::Cause::cache,
                plan_.lost_in_caches_s(worked_s, executed_s, copied_pages, prices()));
  return worked_s;
}

void ShadowRun::charge_for_work(Sample& sample, const plan::Situation& s) {
  const double worked_s = charge_for_caches(sample, s.idle->age_s, s.idle->copied_pages);
  if (!plan_.may_last(s, prices()) || !plan_.would_rest(s.shared_core_share)) return;
  ledger_.spend(plan::Cause::shared_core, worked_s * s.shared_core_share);
}

// While several live at a time it is not known whose page faults the program's are.
bool ShadowRun::may_go_on(const Sample& sample) const {
  return options_.later_samples && sample.budget.seconds > 0 && options_.max_shadows == 1 &&
         !sample.program->has_processor_quota();
}

// A replica follows all that it does.
bool ShadowRun::is_alone(const SampledProcess& program) const {
  return programs_.size() == 1 && program.program().thread_count() == 1;
}

bool ShadowRun::may_last(const SampledProcess& program) const {
  plan::Situation s;
  s.can_be_followed = is_alone(program);
  return plan_.may_last(s, prices());
}

// Samples may end a hundred times a second.
bool ShadowRun::is_short_of_memory(const SampledProcess& program) {
  if (elapsed() < looks_at_memory_) return memory_was_short_;
  looks_at_memory_ = elapsed() + kLookAtMemory_s;
  memory_was_short_ = probe::memory_is_short(program.program().pid());
  return memory_was_short_;
}

// Replicas could last were it not for them.
bool ShadowRun::is_about_busy_core(const SampledProcess& program) const {
  plan::Situation s;
  s.can_be_followed = is_alone(program);
  return options_.later_samples && crowding_.at_idle_priority() && plan_.may_last(s, {}) &&
         !plan_.may_last(s, prices());
}

// Somebody else may have had the machine when that was measured first.
void ShadowRun::look_at_busy_core() {
  const double now = elapsed();
  looks_at_busy_core_s_ = now + std::max(kLookAtBusyCore_s, kLookAtBusyCoreAfterShare * now);
  const ProgramRef program = choose();
  if (!program || !is_about_busy_core(*program)) return;
  const auto cost =
      probe::busy_core_share_beside(program->program().pid(), options_.busy_core.alone_s);
  if (!cost || *cost >= crowding_.cost_of(1)) return;
  detail("a busy core costs {:.1f} % (at {:.2f} s)", 100 * *cost, now);
  ledger_.take_back(plan::Cause::busy_core, crowding_.measured_again(*cost));
}

// Whether that of a replica is the program's, as far as it matters.
void ShadowRun::look_at_core(const Sample& sample) {
  SampledProcess& program = *sample.program;
  if (!may_last(program) || !plan_.would_rest(probe::SharedCore::kMostShare)) return;
  const double now = elapsed();
  probe::SharedCore::Hold hold;
  if (now >= plan_.probes_at_s()) {
    hold = [&](const std::function<void()>& work) {
      return program.hold([&](shadow::Pause&) { work(); });
    };
  }
  const double pause_s =
      shared_core_.look(sample.executor->tid(), program.program().pid(), now, hold);
  if (pause_s <= 0) return;
  ledger_.spend(plan::Cause::peek, pause_s);
  plan_.probed(now, pause_s);
  counts_.pauses.push_back(pause_s);
}

// A replica that has gone on in spite of that goes on.
void ShadowRun::rest_at_shared_core(const Sample& sample) {
  const bool was_shared = plan_.would_rest(shared_core_.slow_down_share());
  look_at_core(sample);
  if (!was_shared && plan_.would_rest(shared_core_.slow_down_share()))
    sample.executor->become_idle();
}

}  // namespace shadowprof::sample
