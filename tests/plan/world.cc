// SPDX-License-Identifier: MIT
#include "world.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace shadowprof::plan {
namespace {

constexpr double kSettleEvery_s = 0.5;
constexpr double kCheckEvery_s = 0.01;
constexpr double kPeek_s = 50e-6;
constexpr double kLongestWait_s = 1;
constexpr double kObservation_s = 0.1;
constexpr size_t kParts = 50;

class World {
 public:
  World(const ProgramRow& program, const HostRow& host, const Wishes& wishes, Policy& policy)
      : program_(program), host_(host), wishes_(wishes), policy_(policy) {
    for (const Phase& phase : program.phases) period_s_ += phase.lasts_s;
  }
  Figures run(double seconds);

 private:
  struct Replica {
    double forked_at_s = 0;
    double forked_used_s = 0;
    double pages = 0;
    double copied = 0;
    PastLife life;
    double recorded_s = 0;
    double executed_s = 0;
    double ready_at_s = 0;  // then it is idle, or its rest is over
    double works_s = 0;
    double executing_share = 0;  // of the time that it works
    bool rests = false;
    uint64_t samples = 1;
  };

  bool is_idle() const { return replica_ && now_s_ >= replica_->ready_at_s; }
  double times() const { return now_s_ >= host_.dearer_from_s ? host_.dearer_times : 1; }
  Prices prices() const;
  Situation situation() const;
  const Phase& phase_at(double used_s) const;
  bool runs() const;
  double pages() const;
  double writable() const;
  double expected_to_be_written() const;
  void carry_out(const Step& step);
  void fork(const Step& step);
  void burst(const Step& step);
  void peek(const Step& step);
  void go_on(const Step& step);
  void end();
  void advance_to(double moment_s);
  void pass(double seconds);
  void write_pages(double used_s);
  void stand_still(double seconds);
  void pay(double seconds);
  void settle();
  void record(double used_s, double length_s, bool is_burst);
  void conclude();

  const ProgramRow& program_;
  const HostRow& host_;
  const Wishes& wishes_;
  Policy& policy_;
  double period_s_ = 0;
  double seconds_ = 0;  // of the run
  double now_s_ = 0;
  double used_s_ = 0;
  double cost_s_ = 0;
  std::optional<Replica> replica_;
  double left_behind_pages_ = 0;  // by dead replicas, and the program has not written to them since
  double kept_pages_ = 0;         // it has, and the policy does not know yet
  double written_share_ = 1;      // of its pages, the last replica's
  double last_pages_ = 0;
  double settles_at_s_ = 0;
  double checks_at_s_ = 0;
  Figures figures_;
};

Prices World::prices() const {
  Prices prices;
  prices.page_copied_s = host_.page_copied_s * times();
  prices.page_kept_s = host_.page_kept_s * times();
  prices.pause_s = host_.pause_s * times();
  prices.burst_s = host_.burst_s * times();
  prices.busy_core_share = host_.busy_core_share;
  return prices;
}

const Phase& World::phase_at(double used_s) const {
  double left_s = std::fmod(used_s, period_s_);
  for (const Phase& phase : program_.phases) {
    if (left_s < phase.lasts_s) return phase;
    left_s -= phase.lasts_s;
  }
  return program_.phases.back();
}

bool World::runs() const {
  if (program_.sleeps_s <= 0) return true;
  return std::fmod(now_s_, program_.runs_s + program_.sleeps_s) < program_.runs_s;
}

double World::pages() const {
  return std::min(program_.pages + program_.grows_pages_per_s * used_s_, program_.most_pages);
}

double World::writable() const {
  return std::min(pages(), program_.writes_pages + program_.writes_share * pages());
}

// By what the last replica's life told.
double World::expected_to_be_written() const {
  const double known = std::min(pages(), 4 * last_pages_);
  return written_share_ * known + pages() - known;
}

Situation World::situation() const {
  Situation s;
  s.now_s = now_s_;
  s.used_s = used_s_;
  s.resident_pages = pages();
  s.written_pages = expected_to_be_written();
  s.replicas = replica_ ? 1 : 0;
  s.can_be_followed = program_.threads == 1;
  s.may_give_later_samples = program_.threads == 1;
  s.fork_variance = s.burst_variance = 0.2;
  if (figures_.forks < 3) s.fork_variance.reset();
  if (!is_idle()) return s;
  IdleReplica idle;
  idle.age_s = now_s_ - replica_->forked_at_s;
  idle.pause_s = replica_->life.pause_s;
  idle.recorded_s = replica_->recorded_s;
  idle.executed_s = replica_->executed_s;
  idle.used_s = used_s_ - replica_->forked_used_s;
  idle.copied_pages = replica_->copied;
  idle.cost_s =
      replica_->copied * host_.page_copied_s * times() + host_.busy_core_share * replica_->works_s;
  s.idle = idle;
  return s;
}

// The program runs, or sleeps; a replica does what it does.
void World::pass(double seconds) {
  if (seconds <= 0) return;
  double used_s = seconds;
  if (program_.sleeps_s > 0) {
    const double cycle_s = program_.runs_s + program_.sleeps_s;
    const auto ran_until = [&](double t) {
      return std::floor(t / cycle_s) * program_.runs_s +
             std::min(std::fmod(t, cycle_s), program_.runs_s);
    };
    used_s = ran_until(now_s_ + seconds) - ran_until(now_s_);
  }
  if (replica_ && !replica_->rests) {
    const double worked_s = std::min(seconds, std::max(0.0, replica_->ready_at_s - now_s_));
    replica_->works_s += worked_s;
    const double executed_s = worked_s * replica_->executing_share;
    pay(host_.busy_core_share * worked_s);
    pay(policy_.worked(worked_s, executed_s, replica_->copied, prices()));
  }
  now_s_ += seconds;
  used_s_ += used_s;
  write_pages(used_s);
}

void World::write_pages(double used_s) {
  const double rate = phase_at(used_s_).writing_share / program_.writes_within_s;
  const double part = 1 - std::exp(-used_s * rate);
  if (replica_) {
    const double copied =
        std::max(0.0, std::min(replica_->pages, writable()) - replica_->copied) * part;
    replica_->copied += copied;
    pay(copied * host_.page_copied_s * times());
  } else {
    const double kept = left_behind_pages_ * part;
    left_behind_pages_ -= kept;
    kept_pages_ += kept;
    pay(kept * host_.page_kept_s * times());
  }
}

void World::pay(double seconds) {
  cost_s_ += seconds;
  if (now_s_ > seconds_ / 2) figures_.cost_late_s += seconds;
  const double debt_s = cost_s_ - wishes_.max_overhead_share * now_s_;
  figures_.most_debt_s = std::max(figures_.most_debt_s, debt_s);
}

void World::advance_to(double moment_s) {
  while (now_s_ < moment_s) {
    double until_s = std::min(moment_s, now_s_ + kLongestWait_s);
    if (replica_ && !replica_->rests) {
      until_s = std::min(until_s, std::max(now_s_ + 1e-6, checks_at_s_));
    }
    pass(until_s - now_s_);
    if (now_s_ < checks_at_s_ || !replica_) continue;
    checks_at_s_ = now_s_ + kCheckEvery_s;
    const double copied_s = replica_->copied * host_.page_copied_s * times();
    if (policy_.is_too_dear(copied_s, replica_->life.pause_s, situation(), prices())) return end();
  }
}

void World::stand_still(double seconds) {
  now_s_ += seconds;
  pay(seconds);
}

// `used_s`: at its begin.
void World::record(double used_s, double length_s, bool is_burst) {
  figures_.moments.push_back({used_s, now_s_, phase_at(used_s).code, is_burst, length_s});
}

void World::fork(const Step& step) {
  if (!runs()) return policy_.missed(now_s_, step);
  settle();
  const double before_s = cost_s_;
  Replica replica;
  replica.pages = pages();
  replica.forked_used_s = used_s_;
  const double pause_s = host_.pause_s * times() + prices().page_table_entry_s * pages();
  stand_still(pause_s);
  figures_.dearest_step_s = std::max(figures_.dearest_step_s, cost_s_ - before_s);
  replica.forked_at_s = now_s_;
  replica.life.pause_s = pause_s;
  const double takes_s = step.length_s * phase_at(used_s_).recording;
  replica.ready_at_s = now_s_ + takes_s;
  replica.recorded_s = takes_s;
  replica.executing_share = step.length_s / takes_s;
  replica.executed_s = step.length_s;
  replica.life.guest_s = step.length_s;
  left_behind_pages_ = 0;
  checks_at_s_ = now_s_ + kCheckEvery_s;
  record(used_s_, step.length_s, false);
  replica_ = replica;
  figures_.forks++;
  policy_.forked(now_s_, used_s_, pause_s);
}

void World::go_on(const Step& step) {
  Replica& replica = *replica_;
  const double at_s = replica.forked_used_s + replica.executed_s + step.native_s;
  const double takes_s = step.length_s * phase_at(at_s).recording;
  replica.rests = false;
  replica.ready_at_s = now_s_ + step.native_s + takes_s;
  replica.executing_share = (step.native_s + step.length_s) / (step.native_s + takes_s);
  replica.recorded_s += takes_s;
  replica.executed_s += step.native_s + step.length_s;
  replica.samples++;
  record(at_s, step.length_s, false);
  figures_.later_samples++;
}

void World::end() {
  Replica replica = *replica_;
  replica_.reset();
  replica.life.lifetime_s = now_s_ - replica.forked_at_s;
  replica.life.copied_pages = replica.copied;
  replica.life.busy_core_s = host_.busy_core_share * replica.works_s;
  if (replica.samples > 1) replica.life.guest_s = 0;
  const double ours = std::min(replica.pages, writable());
  left_behind_pages_ = std::max(0.0, ours - replica.copied);
  last_pages_ = std::max(1.0, replica.pages);
  written_share_ = std::min(1.0, ours / last_pages_);
  policy_.died(now_s_, replica.life, prices());
}

void World::burst(const Step& step) {
  if (!runs()) return policy_.missed(now_s_, step);
  const double pause_s = host_.burst_s * times();
  record(used_s_, 1e-6, true);
  stand_still(pause_s);
  figures_.dearest_step_s = std::max(figures_.dearest_step_s, pause_s);
  figures_.bursts++;
  policy_.burst(situation(), pause_s, step);
}

void World::peek(const Step& step) {
  if (!runs()) return policy_.missed(now_s_, step);
  stand_still(kPeek_s);
  figures_.peeks++;
  policy_.peeked(now_s_, kPeek_s, figures_.peeks < 20);
}

void World::settle() {
  settles_at_s_ = now_s_ + kSettleEvery_s;
  policy_.kept(now_s_, std::exchange(kept_pages_, 0), prices());
}

void World::carry_out(const Step& step) {
  switch (step.what) {
    case What::fork:
      return fork(step);
    case What::burst:
      return burst(step);
    case What::peek:
      return peek(step);
    case What::go_on:
      return go_on(step);
    case What::rest:
      replica_->rests = true;
      replica_->ready_at_s = std::max(step.at_s, now_s_ + 1e-5);
      return;
    case What::end:
      return end();
    case What::wait: {
      double until_s = std::clamp(step.at_s, now_s_ + 1e-5, now_s_ + kLongestWait_s);
      until_s = std::min(until_s, std::max(settles_at_s_, now_s_ + 1e-5));
      if (replica_) until_s = std::min(until_s, std::max(replica_->ready_at_s, now_s_ + 1e-6));
      return advance_to(until_s);
    }
  }
}

Figures World::run(double seconds) {
  seconds_ = seconds;
  while (now_s_ < seconds) {
    if (now_s_ >= settles_at_s_) settle();
    carry_out(policy_.next(situation(), prices()));
  }
  conclude();
  return std::move(figures_);
}

void World::conclude() {
  figures_.seconds = now_s_;
  figures_.used_s = used_s_;
  figures_.true_share = cost_s_ / now_s_;
  figures_.estimated_share = policy_.estimated_share(now_s_);
  std::vector<Moment>& moments = figures_.moments;
  std::sort(moments.begin(), moments.end(),
            [](const Moment& a, const Moment& b) { return a.used_s < b.used_s; });
  std::vector<Moment> observations;
  std::vector<bool> parts(kParts, false);
  double recorded_s = 0;
  for (const Moment& moment : moments) {
    recorded_s += moment.length_s;
    const double part = std::min(moment.used_s / used_s_, 1.0) * kParts;
    parts[std::min(static_cast<size_t>(part), kParts - 1)] = true;
    if (observations.empty() || moment.used_s > observations.back().used_s + kObservation_s) {
      if (!observations.empty()) {
        figures_.longest_gap_s =
            std::max(figures_.longest_gap_s, moment.used_s - observations.back().used_s);
      }
      observations.push_back(moment);
    }
  }
  if (!observations.empty()) {
    figures_.longest_gap_s = std::max(figures_.longest_gap_s, used_s_ - observations.back().used_s);
  }
  figures_.observations = observations.size();
  figures_.recorded_share = recorded_s / used_s_;
  figures_.parts_seen_share =
      static_cast<double>(std::count(parts.begin(), parts.end(), true)) / kParts;
  std::map<int, double> off;
  for (const Phase& phase : program_.phases) off[phase.code] += phase.lasts_s / period_s_;
  for (size_t i = 0; i < observations.size(); i++) {
    const double from_s = i == 0 ? 0 : (observations[i - 1].used_s + observations[i].used_s) / 2;
    const double to_s = i + 1 == observations.size()
                            ? used_s_
                            : (observations[i].used_s + observations[i + 1].used_s) / 2;
    off[observations[i].code] -= (to_s - from_s) / used_s_;
  }
  double sum = 0;
  for (const auto& [code, difference] : off) sum += std::abs(difference) / 2;
  figures_.accuracy_share = observations.empty() ? 0 : 1 - sum;
}

}  // namespace

Figures simulate(const ProgramRow& program, const HostRow& host, const Wishes& wishes,
                 Policy& policy, double seconds) {
  return World(program, host, wishes, policy).run(seconds);
}

}  // namespace shadowprof::plan
