// SPDX-License-Identifier: MIT
//
// One function per subcommand, in a file of its own. argv[0] is the subcommand's name. The return
// value is our exit status (cli/exit_codes.h).
#pragma once

namespace shadowprof::cli {

int run_main(int argc, char** argv);
int annotate_main(int argc, char** argv);
int attach_main(int argc, char** argv);
int baseline_main(int argc, char** argv);
int check_main(int argc, char** argv);
int diff_main(int argc, char** argv);
int doctor_main(int argc, char** argv);
int export_main(int argc, char** argv);
int merge_main(int argc, char** argv);
int report_main(int argc, char** argv);
int ctl_main(int argc, char** argv);
int compare_main(int argc, char** argv);
int top_main(int argc, char** argv);
int stat_main(int argc, char** argv);
int probes_main(int argc, char** argv);
int syscalls_main(int argc, char** argv);

}  // namespace shadowprof::cli
