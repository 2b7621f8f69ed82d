// SPDX-License-Identifier: MIT
//
// Programs and hosts to simulate. The first seven programs are those of bench/programs.py, by what
// shadow mode says of them there: pages, pages written to, speed of recording.
#pragma once

#include <vector>

#include "world.h"

namespace shadowprof::plan {

const std::vector<ProgramRow>& program_rows();
const std::vector<HostRow>& host_rows();
const ProgramRow& program_row(const std::string& name);
const HostRow& host_row(const std::string& name);

}  // namespace shadowprof::plan
