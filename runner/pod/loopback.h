/*
 * runner/pod/loopback.h -- TCP between the tasks of one pod, and with nobody else.
 *
 * A process that may open no socket asks for one (CONFINE_TASKS), and the payload's first program makes it and binds it to the device `lo`: then the kernel sends
 * and takes its packets through that device alone, whatever address they have. To undo this needs a right that nobody in the pod has (CAP_NET_RAW, socket(7)).
 */
#pragma once

#include "runner/sandbox/proof.h"

/** Answers one question of a listener. A process that has ended meanwhile gets no answer. */
void loopback_answer(int listener);
/**
 * In a process that asks: shows that a socket is given, is bound to `lo`, can't be unbound, that there is no other socket that sends packets, and that none of the addresses
 * (`count` texts ADDRESS PORT ...) answers. NULL, or what is open; the text is one of these, or constant.
 */
const char *loopback_what_is_open(const char *const *addresses, size_t count);
