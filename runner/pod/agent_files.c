#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "runner/pod/agent_priv.h"
#include "runner/sandbox/outputs.h"
#include "runner/talk/talk_files.h"

#define INPUT_FILES_MAX 1000000

struct result agent_take_inputs(struct talk *talk, struct talk_message *message, struct error *err)
{
    struct talk_taking taking = {.folder = -1, .files_max = INPUT_FILES_MAX, .bytes = INT64_MAX}; /* the volumes have sizes */
    OWNED_FD root = -1;

    TRY(file_open("/", O_RDONLY | O_DIRECTORY, 0, &root, err));
    taking.folder = root;
    for (;;) {
        TRY(talk_receive(talk, TALK_SILENCE_MS, message, err));
        if (message->kind == TALK_WHOLE) return SUCCESS;
        if (message->kind != TALK_FILE) return failure(err, ERROR_INVALID, "the runner sends no inputs");
        TRY(talk_take_file(talk, message, &taking, err));
    }
}

struct giving {
    struct talk *talk;
    bool has_failed; /* the talk, and not an output */
};

static struct result give(void *context, const struct output_file *file, struct error *err)
{
    struct giving *giving = context;
    const struct result sent = talk_send_file(giving->talk, file->path, file->mode, file->fd, file->size, err);

    giving->has_failed = !sent.ok && err->kind == ERROR_UNAVAILABLE;
    return sent;
}

static struct result walk(struct talk *talk, const int64_t most[2], bool *has_failed_out, struct error *err)
{
    struct giving giving = {.talk = talk};
    struct output_walk walk = {
        .what = "output", .rules = {.files_max = most[0], .bytes_max = most[1]}, .take = give, .context = &giving};
    OWNED_FD out = -1;

    TRY(file_open("/out", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &out, err));
    const struct result walked = output_walk(&walk, out, err);
    *has_failed_out = giving.has_failed;
    return walked;
}

struct result agent_give_outputs(struct talk *talk, struct talk_message *message, struct error *err)
{
    uint64_t files = 0, bytes = 0;
    bool has_failed = false;

    TRY(talk_texts(message, 2, err));
    if (!text_to_u64(bytes_of_text(message->texts[0]), INT64_MAX, &files) ||
        !text_to_u64(bytes_of_text(message->texts[1]), INT64_MAX, &bytes))
        return failure(err, ERROR_INVALID, "the runner asks for outputs without limits");
    const int64_t most[2] = {(int64_t)files, (int64_t)bytes};
    if (walk(talk, most, &has_failed, err).ok) return talk_send(talk, TALK_WHOLE, (struct bytes){0}, err);
    if (has_failed) return (struct result){.ok = false};
    return talk_send(talk, TALK_BROKEN, bytes_of_text(err->message), err);
}
