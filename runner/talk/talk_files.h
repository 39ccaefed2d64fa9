/*
 * runner/talk/talk_files.h -- files in a talk: the inputs of a run go to the pod, its outputs come back.
 */
#pragma once

#include "runner/talk/talk.h"

/** Sends `size` bytes of the open file. ERROR_CONFLICT: it has become shorter. */
RESULT talk_send_file(struct talk *talk, const char *path, int64_t mode, int fd, int64_t size, struct error *err);

/** What may be taken. */
struct talk_taking {
    int folder;               /* nobody else writes to it */
    int64_t files_max, bytes; /* bytes: left */
    int64_t files;            /* so far */
};
/**
 * Takes the file whose TALK_FILE is in `message`; writes a new file below the folder, and the folders of its path. ERROR_DENIED: the path leads out, or is
 * there already; ERROR_LIMIT: too much; ERROR_FULL.
 */
RESULT talk_take_file(struct talk *talk, struct talk_message *message, struct talk_taking *taking, struct error *err);
/** Whether such a path may be taken: relative, without empty names, "." and "..". */
bool talk_path_is_safe(const char *path);
