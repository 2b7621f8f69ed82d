// SPDX-License-Identifier: MIT
//
// Code that belongs to no function: what a compiler in the program has generated, where nobody says
// its names, and stripped code that nothing tells the functions of. Lists of functions have a row
// for it, since it may be most of the program.
#pragma once

#include <string>

#include "profile/profile.h"

namespace shadowprof::profile {

// The file's name without its folders; "[anonymous]".
std::string module_label(const Module& module);
// "[unknown code of [anonymous]]"
std::string unknown_code_name(const Module& module);

// One row for all of it in modules of one path, with `name` of the above, `self`, `user_ns` and
// `kernel_ns`; at the first place. It is no function: nobody finds it by a place.
FunctionTable unnamed_code(const Profile& profile);
// What of it no file has, as a share of the processor time, or of the instructions where time was
// not measured.
double generated_share(const Profile& profile);

}  // namespace shadowprof::profile
