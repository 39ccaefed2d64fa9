/*
 * gateway/pipeline/pipeline.h -- the one way of every request.
 *
 *   route -> authenticate -> decide -> record -> handler -> answer
 *
 * The steps are a table in gateway/pipeline/pipeline.c. What can be decided from memory runs on the event thread; what may block
 * runs on reader workers. Where a step has to wait (for a body, for the sequencer) its thread goes on with other requests
 * and the step after it runs when the wait is over.
 */
#pragma once

struct exchange;

/** The head was checked and the connection is suspended. On the event thread. */
void pipeline_start(struct exchange *exchange);
