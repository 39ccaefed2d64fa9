/*
 * gateway/pipeline/pipeline.h -- the steps of every request.
 *
 *   route -> authenticate -> decide -> record -> handler -> answer
 *
 * gateway/pipeline/pipeline.c has the steps as a table. Decisions from memory run on the event thread; steps that may block run on reader
 * workers. If a step has to wait (for a body, for the sequencer), its thread serves other requests, and the next step runs after the wait.
 */
#pragma once

struct exchange;

/** Begins the steps. The head was checked, and the connection is suspended. On the event thread. */
void pipeline_start(struct exchange *exchange);
