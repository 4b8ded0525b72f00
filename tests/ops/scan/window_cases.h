#pragma once

#include "ops/scan/scan.h"

namespace smelt::ops::scan {

Case pool(Choices& c);
Case byte_mean(Choices& c);
Case resize(Choices& c);

}  // namespace smelt::ops::scan
