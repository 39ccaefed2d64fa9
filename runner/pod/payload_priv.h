/*
 * runner/pod/payload_priv.h -- the payload's side: process 1, and the process inside, which becomes the command.
 */
#pragma once

#include "runner/pod/pod.h"

/** For the forked process: confines itself, shows that it is closed in, and becomes the command. It talks to process 1 as that talks to the agent. */
_Noreturn void payload_inside(int channel, const char *folder, const struct pod_wishes *wishes);
