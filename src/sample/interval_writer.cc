// SPDX-License-Identifier: MIT
#include "sample/interval_writer.h"

#include "base/log.h"
#include "profile/file/json_file.h"

namespace shadowprof::sample {
namespace {

// It has the lowest priority.
constexpr double kWriterPatience_s = 60;
constexpr const char* kWritten = "written";
constexpr size_t kLongestSentence_bytes = 512;

}  // namespace

bool IntervalWriter::is_free() {
  take_news(0);
  return !copy_.is_at_work();
}

void IntervalWriter::write(collect::Pipeline& pipeline,
                           const std::function<profile::Profile&()>& make) {
  const auto work = [&]() -> std::string {
    const profile::Profile& profile = make();
    const Status written = profile::write_profile(profile, series_.file_for(profile.run.started));
    if (!written) return written.error().message.substr(0, kLongestSentence_bytes);
    series_.remove_old();
    return kWritten;
  };
  if (!copy_.start(pipeline, work)) note("shadowprof cannot copy itself");
}

void IntervalWriter::settle() {
  take_news(kWriterPatience_s);
}

void IntervalWriter::take_news(double most_s) {
  const auto answer = copy_.take_answer(most_s);
  if (!answer) return;
  if (*answer != kWritten) return note(answer->empty() ? "who was to write it has ended" : *answer);
  has_failed_ = false;
}

void IntervalWriter::note(const std::string& why_not) {
  if (!has_failed_) warn("the profile of an interval is lost: {}", why_not);
  has_failed_ = true;
}

}  // namespace shadowprof::sample
