#include "runner/serve/checkpoints.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "client/session.h"
#include "client/terminal.h"
#include "runner/serve/harvest.h"

#define LOOK_MS     1000
#define PAUSE_MS    5000 /* between two: each has events at the registry, and costs time of this machine */
#define ENTRIES_MAX 4096 /* of the folder that are looked at */
#define NAME_SIZE   256  /* of a file system */

/* A finished one. Only the kernel sets the time of the change, which a renaming is. */
struct finished {
    char name[NAME_SIZE];
    int64_t changed_ns;
};

struct checkpoints {
    struct checkpoints_options options;
    struct thread thread;
    atomic_bool gives_up;
    /* with the mutex */
    bool keeps_last, is_done;
    char line[CHECKPOINTS_LINE_SIZE];
    /* of the thread alone */
    int folder;
    struct calls *calls;
    struct report report;
    struct token_source tokens;
    struct session *session;
    json_t *outputs;
    struct finished taken; /* the newest that was kept or refused */
};

/* ---- the folder ---- */

static bool is_newer(const struct finished *a, const struct finished *b)
{
    return a->changed_ns > b->changed_ns || (a->changed_ns == b->changed_ns && strcmp(a->name, b->name) > 0);
}

static void compare(const struct checkpoints *self, const char *name, struct finished *newest)
{
    struct finished found = {.changed_ns = 0};
    struct stat about;

    if (name[0] == '.' || strlen(name) >= sizeof found.name || fstatat(self->folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    (void)snprintf(found.name, sizeof found.name, "%s", name);
    found.changed_ns = (int64_t)about.st_ctim.tv_sec * 1000000000 + about.st_ctim.tv_nsec;
    if (is_newer(&found, newest)) *newest = found;
}

/* False: there is none that was not taken yet. */
static bool find_newest(const struct checkpoints *self, struct finished *newest_out)
{
    OWNED_LISTING listing = file_list(self->folder);
    struct finished newest = {.changed_ns = 0};
    const char *name = NULL;
    struct error ignored;

    if (listing == NULL) return false;
    for (size_t i = 0; i < ENTRIES_MAX && file_list_next(listing, &name, &ignored).ok && name != NULL; i++)
        compare(self, name, &newest);
    *newest_out = newest;
    return newest.name[0] != '\0' && is_newer(&newest, &self->taken);
}

/* ---- one checkpoint ---- */

static struct result look_only(void *context, const struct output_file *file, struct error *err)
{
    (void)context, (void)file, (void)err;
    return SUCCESS;
}

struct uploading {
    struct harvest *harvest;
    bool has_failed; /* the call, and not the folder */
};

static struct result take_file(void *context, const struct output_file *file, struct error *err)
{
    struct uploading *uploading = context;
    const struct result taken = harvest_take(uploading->harvest, file, false, err);

    uploading->has_failed = !taken.ok;
    return taken;
}

static struct output_walk walk_of(const struct checkpoints *self)
{
    const struct run_limits *limits = self->options.limits;

    return (struct output_walk){
        .what = "checkpoint", .rules = {limits->output_files, limits->output_bytes, false}, .take = look_only};
}

static struct result new_harvest(struct checkpoints *self, const char *name, struct harvest **harvest_out, struct error *err)
{
    json_decref(self->outputs);
    self->outputs =
        json_pack("[{s:s, s:s, s:s}]", "name", name, "repository", self->options.repository, "type", RUN_CHECKPOINT_TYPE);
    if (self->outputs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    const struct harvest_options options = {.session = self->session,
                                            .host = self->options.host,
                                            .outputs = self->outputs,
                                            .folder = "/checkpoints",
                                            .label = self->options.label};
    return harvest_new(&options, harvest_out, err);
}

/* ERROR_UNAVAILABLE: it may be tried again. */
static struct result upload(struct checkpoints *self, const char *name, struct digest *digest_out, struct error *err)
{
    struct output_walk walk = walk_of(self);
    OWNED(harvest) *harvest = NULL;
    struct uploading uploading = {.has_failed = false};
    struct bytes manifest;

    TRY(new_harvest(self, name, &harvest, err));
    uploading.harvest = harvest;
    walk.take = take_file;
    walk.context = &uploading;
    const struct result walked = output_walk_entry(&walk, self->folder, name, err);
    if (!walked.ok && !uploading.has_failed && err->kind == ERROR_UNAVAILABLE) err->kind = ERROR_DENIED;
    TRY(walked);
    if (harvest_refusal(harvest) != NULL) return failure(err, ERROR_DENIED, "%s", harvest_refusal(harvest));
    TRY(harvest_finish_first(harvest, &manifest, digest_out, err));
    return calls_checkpoint(self->calls, self->options.leased, manifest, err);
}

/* The first walk sends nothing: what breaks a rule costs no blob of the order's limit. */
static struct result keep(struct checkpoints *self, const char *name, struct digest *digest_out, struct error *err)
{
    struct output_walk walk = walk_of(self);

    if (!output_walk_entry(&walk, self->folder, name, err).ok) {
        if (err->kind == ERROR_UNAVAILABLE) err->kind = ERROR_DENIED;
        return (struct result){.ok = false};
    }
    return upload(self, name, digest_out, err);
}

static void say(struct checkpoints *self, const char *name, const char *what, const char *more)
{
    char shown[2 * OUTPUT_NAME_MAX];

    (void)snprintf(shown, sizeof shown, "%s", name);
    terminal_sanitize(shown);
    (void)pthread_mutex_lock(&self->thread.mutex);
    (void)snprintf(self->line, sizeof self->line, "[sijil] checkpoint %.128s %s: %.300s\n", shown, what, more);
    (void)pthread_mutex_unlock(&self->thread.mutex);
    log_line(LOG_INFO, "checkpoint", "run", self->options.leased->run, "name", shown, "what", what, "more", more, NULL);
}

/* False: it could not be sent, and is tried again. */
static bool take(struct checkpoints *self, const struct finished *found)
{
    char text[DIGEST_TEXT_SIZE];
    struct digest digest;
    struct finished newer;
    struct error why = {0};

    if (keep(self, found->name, &digest, &why).ok) {
        digest_format(&digest, text);
        say(self, found->name, "kept", text);
    } else if (why.kind == ERROR_UNAVAILABLE || why.kind == ERROR_NO_MEMORY) {
        log_error("a checkpoint could not be sent", &why);
        return false;
    } else if (why.kind == ERROR_CONFLICT && find_newest(self, &newer) && strcmp(newer.name, found->name) != 0) {
        return false; /* the program has removed it, because it has a newer one */
    } else {
        say(self, found->name, "not kept", why.message);
    }
    self->taken = *found;
    return true;
}

/* ---- the thread ---- */

static bool ends_now(const struct checkpoints *self)
{
    return atomic_load(&self->gives_up) || clock_wall_ms() >= self->options.until_ms;
}

static bool wants_last(struct checkpoints *self)
{
    (void)pthread_mutex_lock(&self->thread.mutex);
    const bool wants = self->keeps_last;
    (void)pthread_mutex_unlock(&self->thread.mutex);
    return wants;
}

/* After the end no newer one comes. */
static void take_last(struct checkpoints *self)
{
    struct finished found;

    while (wants_last(self) && !ends_now(self) && find_newest(self, &found) && !take(self, &found)) (void)usleep(LOOK_MS * 1000);
}

static void *run(void *argument)
{
    struct checkpoints *self = argument;
    struct finished found;

    while (!thread_is_stopping(&self->thread) && !ends_now(self) && !wants_last(self)) {
        const bool is_there = find_newest(self, &found);
        if (is_there) (void)take(self, &found);
        for (int64_t waited = 0; waited < (is_there ? PAUSE_MS : LOOK_MS) && !wants_last(self); waited += 100)
            if (!thread_sleep(&self->thread, 100)) break;
    }
    take_last(self);
    (void)pthread_mutex_lock(&self->thread.mutex);
    self->is_done = true;
    (void)pthread_cond_broadcast(&self->thread.woken);
    (void)pthread_mutex_unlock(&self->thread.mutex);
    return NULL;
}

static struct result ask_token(void *context, const char *scope, struct buffer *token, int64_t *lifetime_s_out, struct error *err)
{
    struct checkpoints *self = context;

    (void)scope;
    return calls_token(self->calls, self->options.leased, token, lifetime_s_out, err);
}

struct result checkpoints_start(const struct checkpoints_options *options, int folder, struct checkpoints **checkpoints_out,
                                struct error *err)
{
    OWNED(checkpoints) *self = memory_zeroed(1, sizeof *self);

    if (self == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checkpoints");
    self->options = *options;
    self->folder = -1;
    TRY(file_open_at(folder, ".", O_RDONLY | O_DIRECTORY, 0, &self->folder, err));
    TRY(calls_open(options->http, options->session, &self->calls, err));
    calls_give_up_when(self->calls, &self->gives_up);
    self->tokens = (struct token_source){.ask = ask_token, .context = self, .name = options->leased->run};
    TRY(session_open_from(&self->report, options->http, &self->tokens, &self->session, err));
    session_give_up_when(self->session, &self->gives_up);
    TRY(thread_start(&self->thread, run, self, "keeps checkpoints of a run", err));
    *checkpoints_out = GIVE(self);
    return SUCCESS;
}

bool checkpoints_say(struct checkpoints *self, char line_out[CHECKPOINTS_LINE_SIZE])
{
    (void)pthread_mutex_lock(&self->thread.mutex);
    memcpy(line_out, self->line, sizeof self->line);
    self->line[0] = '\0';
    (void)pthread_mutex_unlock(&self->thread.mutex);
    return line_out[0] != '\0';
}

void checkpoints_end(struct checkpoints *self, bool keeps_last)
{
    (void)pthread_mutex_lock(&self->thread.mutex);
    self->keeps_last = keeps_last;
    while (keeps_last && !self->is_done && clock_wall_ms() < self->options.until_ms)
        thread_wait(&self->thread, clock_monotonic_ms() + LOOK_MS);
    (void)pthread_mutex_unlock(&self->thread.mutex);
    atomic_store(&self->gives_up, true);
    thread_stop(&self->thread);
}

void checkpoints_free(struct checkpoints *self)
{
    if (self == NULL) return;
    atomic_store(&self->gives_up, true);
    thread_stop(&self->thread);
    session_free(self->session);
    calls_free(self->calls);
    json_decref(self->outputs);
    file_close_owned(&self->folder);
    free(self);
}
