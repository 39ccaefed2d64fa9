/*
 * gateway/pipeline.h -- the one way of every request.
 *
 *   route -> authenticate -> decide -> record -> handler -> answer
 *
 * The steps are a table in gateway/pipeline.c. They run on reader workers; where a step has to wait (for a body, for
 * the sequencer) the worker goes on with other requests and the step after it runs when the wait is over.
 */
#pragma once

struct exchange;

/** The head was checked and the connection is suspended. */
void pipeline_start(struct exchange *exchange);
