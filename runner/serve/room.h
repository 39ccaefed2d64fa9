/*
 * runner/serve/room.h -- whether this machine's disks have room for a run. A runner without room asks for no lease: it would only use up attempts.
 */
#pragma once

#include "base/result.h"

/**
 * Tries to take a little room in the folder of runs and in the folder `kept`, and gives it back. ERROR_FULL, which names the folder. Any other trouble
 * is left to the run.
 */
RESULT room_check(const char *work, int kept, struct error *err);
