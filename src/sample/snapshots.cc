// SPDX-License-Identifier: MIT
#include "sample/snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "profile/file/json_file.h"

namespace shadowprof::sample {
namespace {

constexpr double kDumpsApart_s = 1;
constexpr double kFirstLook_s = 1;
// The next look, as a multiple of the time up to the one before.
constexpr double kSoonestRatio = 1.1;
constexpr double kLatestRatio = 2;
constexpr double kLookShare = 0.05;
// For a copy that writes to the run's file when sampling is over. It has the lowest priority.
constexpr double kDumpPatience_s = 60;
constexpr size_t kLongestSentence_bytes = 512;

std::string view_file;
double view_interval_s = 0;

// What a copy answers: both ends are the same program.
struct News {
  bool has_precision = false;
  bool dumped = false;
  profile::Precision precision;
  char why_not[kLongestSentence_bytes] = {};
};

std::string text_of(const News& news) {
  static_assert(sizeof news <= OwnCopy::kLongestAnswer_bytes);
  return {reinterpret_cast<const char*>(&news), sizeof news};
}

std::optional<News> news_of(const std::string& text) {
  News news;
  if (text.size() != sizeof news) return std::nullopt;
  std::memcpy(&news, text.data(), sizeof news);
  return news;
}

void note_failure(const Status& written, News& news) {
  const std::string& why = written.error().message;
  std::memcpy(news.why_not, why.data(), std::min(why.size(), sizeof news.why_not - 1));
}

}  // namespace

void Snapshots::ask_for(std::string file, double interval_s) {
  view_file = std::move(file);
  view_interval_s = interval_s;
}

Result<uint64_t> Snapshots::want_dump() {
  if (wishes_.dump_file.empty())
    return fail("the profile goes to standard output, at the end and not before");
  wants_dump_ = true;
  return dumps_begun_ + 1;
}

Result<bool> Snapshots::has_dumped(uint64_t number) const {
  if (dumps_ended_ < number) return false;
  if (!last_failure_.empty()) return fail("{}", last_failure_);
  return true;
}

void Snapshots::end_dump(const std::string& why_not) {
  dumps_ended_ = dumps_begun_;
  last_failure_.clear();
  if (why_not.empty())
    return info("the profile of the first {:.2f} s: {}", taken_s_, wishes_.dump_file);
  last_failure_ = "the profile so far could not be written: " + why_not;
  warn("{}", last_failure_);
}

void Snapshots::want_dump_or_warn() {
  if (const auto wanted = want_dump(); !wanted) warn("{}", wanted.error().message);
}

bool Snapshots::wants_view(double now) const {
  return view_interval_s > 0 && now >= std::max(next_view_s_, view_interval_s);
}

bool Snapshots::wants_look(double now) const {
  return wishes_.until_error > 0 && !enough_ && now >= std::max(next_look_s_, kFirstLook_s);
}

bool Snapshots::is_due(double now) {
  take_news(now, 0);
  if (copy_.is_at_work()) return false;
  return wants_dump(now) || wants_view(now) || wants_look(now);
}

void Snapshots::take(double now, collect::Pipeline& pipeline,
                     const std::function<profile::Profile&()>& make) {
  const bool views = wants_view(now);
  dumps_ = wants_dump(now);
  if (dumps_) {
    wants_dump_ = false;
    dumps_begun_++;
    next_dump_s_ = now + kDumpsApart_s;
  }
  looks_ = wants_look(now);
  taken_s_ = now;
  if (views) next_view_s_ = now + view_interval_s;
  const auto work = [&] {
    const profile::Profile& profile = make();
    News news;
    if (const auto precision = profile::precision_of(profile)) {
      news.has_precision = true;
      news.precision = *precision;
    }
    if (views) (void)profile::write_profile(profile, view_file);
    if (dumps_) {
      const Status written = profile::write_profile(profile, wishes_.dump_file);
      news.dumped = written.has_value();
      if (!written) note_failure(written, news);
    }
    return text_of(news);
  };
  if (copy_.start(pipeline, work)) return;
  if (looks_) take_look(now, std::nullopt);
  if (dumps_) end_dump("shadowprof cannot copy itself");
}

void Snapshots::take_news(double now, double most_s) {
  const auto answer = copy_.take_answer(most_s);
  if (!answer) return;
  const auto news = news_of(*answer);
  if (looks_) {
    const bool knows = news && news->has_precision;
    take_look(now, knows ? std::optional(news->precision) : std::nullopt);
  }
  if (!dumps_) return;
  if (!news) return end_dump("who was to write it has ended");
  end_dump(news->dumped ? "" : news->why_not);
}

void Snapshots::take_look(double now, const std::optional<profile::Precision>& found) {
  double ratio = kLatestRatio;
  if (found) {
    if (found->widest <= wishes_.until_error)
      enough_ = {wishes_.until_error, found->widest, found->functions, found->by_time};
    const double times = found->widest / wishes_.until_error;
    ratio = std::clamp(times * times, kSoonestRatio, kLatestRatio);
  }
  next_look_s_ = std::max(taken_s_ * ratio, now + (now - taken_s_) / kLookShare);
}

void Snapshots::settle() {
  if (!copy_.is_at_work() || !dumps_) return;
  take_news(taken_s_, kDumpPatience_s);
  if (!copy_.is_at_work()) return;
  copy_.stop();
  end_dump(fmt::format("that took more than {} s", kDumpPatience_s));
}

}  // namespace shadowprof::sample
