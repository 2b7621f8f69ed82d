// SPDX-License-Identifier: MIT
#include "inject/guest_signals.h"

#include <utility>

#include "kernel/proc.h"

namespace shadowprof::inject {

void repair_signal_state(GuestThread& t, int signal) {
  const ptrace::RemoteSigaction& action = t.process->actions[static_cast<size_t>(signal)];
  const bool blocked = (t.blocked & ptrace::mask_of(signal)) != 0;
  const bool ignored = action.handler == reinterpret_cast<uint64_t>(SIG_IGN);
  if (!blocked && !ignored) return;
  // First, so that none that the program blocks leaves its queue meanwhile.
  const ptrace::SignalMask mask = t.holding ? ptrace::hold_signals(t.blocked) : t.blocked;
  if (blocked && !t.tracee.set_signal_mask_if_alive(mask)) return;
  if (action.handler != reinterpret_cast<uint64_t>(SIG_DFL)) (void)set_action(t, signal);
}

bool set_action(GuestThread& t, int signal) {
  GuestCalls remote(t);
  return remote.rt_sigaction(signal, t.process->actions[static_cast<size_t>(signal)]) &&
         remote.finish();
}

void begin_actions(GuestProcess& process) {
  process.actions = {};
  const auto status = kernel::read_status(process.pid);
  if (!status) return;  // it is dying
  for (const int signal : cache::kOwnSignals) {
    if (!(status->ignored & ptrace::mask_of(signal))) continue;
    process.actions[static_cast<size_t>(signal)].handler = reinterpret_cast<uint64_t>(SIG_IGN);
  }
}

void refresh_mask(GuestThread& t) {
  const bool is_exact = t.holding || blocks_raised(t);
  if (!is_exact) (void)t.tracee.get_signal_mask_if_alive(t.blocked);
}

void note_mask(GuestThread& t) {
  (void)t.tracee.get_signal_mask_if_alive(t.blocked);
  if (t.slot != nullptr) t.slot->trap_masks(blocks_raised(t));
  if (t.blocked & kOwnSignalMask) (void)look_at_actions(t);  // an Error: it is dying
}

Status look_at_actions(GuestThread& t) {
  if (std::exchange(t.process->actions_known, true)) return {};
  const auto status = kernel::read_status(t.process->pid);
  if (!status) return tl::unexpected(status.error());
  GuestCalls remote(t, ptrace::StopSignal::keep);
  for (const int signal : cache::kOwnSignals) {
    if (!((status->ignored | status->caught) & ptrace::mask_of(signal))) continue;
    SP_ASSIGN(t.process->actions[static_cast<size_t>(signal)], remote.get_sigaction(signal));
  }
  SP_ASSIGN([[maybe_unused]] const ptrace::WaitStatus stop, remote.finish());
  return {};
}

}  // namespace shadowprof::inject
