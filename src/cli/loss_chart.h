// The curve that `espalier train` and `espalier report` draw.
#pragma once
#include <string>

#include "cli/terminal.h"
#include "report/run_report.h"

namespace espalier {

/// Training and validation loss over steps, as wide as standard output; empty where nothing was logged.
std::string loss_chart(const Terminal& terminal, const RunData& run);

}  // namespace espalier
