/*
 * runner/jobs/wish.h -- what a scheduler's job tells the runner of its node: one line, "RUN ATTEMPT" or "RUN ATTEMPT 0,3".
 *
 * The numbers at the end are the devices that the scheduler gave to the job: numbers of device nodes. They only stop the runner from
 * using devices of other jobs: the order says which devices its run needs.
 */
#pragma once

#include "base/bytes.h"
#include "base/uuid.h"
#include "runner/devices/devices.h"

#define WISH_MAX 512 /* a UUID, an attempt, and DEVICES_MAX numbers */

struct job_wish {
    char run[UUID_TEXT_SIZE]; /* "": no job, so any run */
    int attempt;
    bool names_devices; /* else it may have any */
    size_t device_count;
    unsigned minors[DEVICES_MAX];
};

/** ERROR_INVALID says what is wrong. */
RESULT job_wish_read(struct bytes line, struct job_wish *wish_out, struct error *err);
/** Appends the line, without its end. `devices` is NULL, or a list as in the line. ERROR_INVALID for what can't be read again. */
RESULT job_wish_write(const char *run, const char *attempt, const char *devices, struct buffer *line, struct error *err);
/** Whether the job may use the device with this number. */
bool job_wish_allows(const struct job_wish *wish, unsigned minor);
