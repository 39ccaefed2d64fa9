/*
 * registry/copies/placement_jobs.h -- the server's own look at what lies where (registry/copies/placement.h).
 *
 * Rule: no code that serves a request may include this (tests/lint/closed_headers.txt).
 */
#pragma once

#include "registry/copies/copier.h"

/**
 * A page of the look, if one is due and no other gateway works on it: after another policy set at once, after other names, labels or restrictions within half a minute, and every ten minutes,
 * because attestations and exceptions end. *worked_out: there was one. What a killed gateway has begun goes on after 30 s.
 */
RESULT placement_work(struct registry *registry, struct pg *pg, const struct copier_options *options, bool *worked_out,
                      struct error *err);
/** Reads the counts of the metrics. */
RESULT placement_count(struct pg *pg, struct error *err);
