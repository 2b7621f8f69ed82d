// SPDX-License-Identifier: MIT
#include "cache/capture_windows.h"

namespace shadowprof::cache {

void CaptureWindows::answer(const trace::RunMailbox::Request& request,
                            trace::RunMailbox& collector, uint64_t submitted) {
  if (const auto plain = make_plain(request)) collector.answer({*plain, submitted});
}

// A run of the plain translation; nothing: none was made.
std::optional<RunId> CaptureWindows::make_plain(const trace::RunMailbox::Request& request) {
  forget_dropped();  // before there is a pair of after the flush
  const BlockId first = table_.run(request.run).first_block;
  const emu::Fragment* f = cache_.find(table_.block(first).start);
  if (f == nullptr || f->checks_itself || f->kind != emu::FragmentKind::translated)
    return std::nullopt;
  const trace::Run& own = table_.run(f->longest_run);
  if (own.first_block != first || !own.captures) return std::nullopt;
  const FragmentId capturing = cache_.id_of(*f);
  const GuestAddr start = f->start;
  constexpr auto kTranslated = emu::Translator::Outcome::translated;
  const emu::CapturePlan plain{.records = request.keep_records};
  const auto made = translator_.translate(start, std::nullopt, plain);
  if (made.outcome != kTranslated) return std::nullopt;
  cache_.redirect(capturing, made.fragment);
  versions_.push_back({capturing, made.fragment, made.fragment});
  return cache_.fragment(made.fragment).longest_run;
}

// What was dropped comes back as new code, and is captured as such.
void CaptureWindows::forget_dropped() {
  if (flushes_ != cache_.flushes()) versions_.clear();
  flushes_ = cache_.flushes();
  std::erase_if(versions_, [&](const Versions& v) {
    return !cache_.fragment(v.capturing).live || !cache_.fragment(v.plain).live;
  });
}

void CaptureWindows::lead_all(FragmentId Versions::* to) {
  forget_dropped();
  for (Versions& v : versions_) {
    if (v.present == v.*to) continue;
    cache_.redirect(v.present, v.*to);
    v.present = v.*to;
  }
}

// From 0 to 1, but for 1.
double CaptureWindows::random_share() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  constexpr double kAll = 0x1p32;
  return static_cast<double>(random_ >> 32) / kAll;
}

void CaptureWindows::turn(double share) {
  turn_all(random_share() < share);
}

void CaptureWindows::turn_all(bool open) {
  lead_all(open ? &Versions::capturing : &Versions::plain);
}

}  // namespace shadowprof::cache
