/*
 * tests/support/keyd_process.h -- a daemon of tests/support/keyd_daemon.h together with a client of it.
 *
 * Any failure fails the test at once.
 */
#pragma once

#include "base/owned.h"
#include "crypto/keyd_client.h"

struct keyd_process;

/** Makes a key ring for the log `origin` in a folder of its own, starts keyd and waits until it serves. */
struct keyd_process *keyd_process_new(const char *origin);
/** A client with short time-outs; lives as long as the process. */
struct keyd_client *keyd_process_client(struct keyd_process *keyd);
/** Kills it with SIGKILL, and starts it again with the same folder. */
void keyd_process_kill(struct keyd_process *keyd);
/** `paused`: stops it with SIGSTOP; else continues it. */
void keyd_process_pause(struct keyd_process *keyd, bool paused);
void keyd_process_restart(struct keyd_process *keyd);
/** Runs the program on its folder with these options (NULL-terminated) while it does not serve; the exit status. */
int keyd_process_run(struct keyd_process *keyd, const char *const *options, char *said, size_t room);
/** Ends it in order, asserts that it did, and removes its folder. */
void keyd_process_free(struct keyd_process *keyd);
DEFINE_OWNED(keyd_process);
