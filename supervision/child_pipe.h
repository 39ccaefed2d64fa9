/*
 * supervision/child_pipe.h -- the input and output of a program, through pipes and with limits.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "supervision/child.h"

/** A pipe that holds the whole input already, so neither side waits. ERROR_LIMIT for more than the capacity of a pipe. The caller
 *  closes it. */
RESULT child_input(struct bytes input, int *read_end_out, struct error *err);

enum child_stream { CHILD_OUTPUT, CHILD_ERRORS, CHILD_STREAMS };

struct child_output_options {
    uint64_t maximum; /* bytes of both streams together; further bytes are counted and dropped, so the program never blocks */
    RESULT (*take)(void *context, enum child_stream stream, struct bytes piece, struct error *err);
    void *context;
};

struct child_output;
RESULT child_output_new(const struct child_output_options *options, struct child_output **output_out, struct error *err);
/** For child_options: the ends that become descriptors 1 and 2 of the program. The first child_output_read() closes them. */
void child_output_ends(const struct child_output *output, struct child_descriptor ends_out[CHILD_STREAMS]);
/**
 * Call it after the program has begun. Waits at most `patience_ms` for output and passes it to `take`. *open_out is false
 * once every process that had the streams has closed them.
 */
RESULT child_output_read(struct child_output *output, int patience_ms, bool *open_out, struct error *err);
/** The number of bytes that came after the maximum and were dropped. */
uint64_t child_output_dropped(const struct child_output *output);
void child_output_free(struct child_output *output);
DEFINE_OWNED(child_output);
