#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/pod/pod.h"

struct result pod_send(int channel, const char *const *texts, size_t count, const int pipes[2], struct error *err)
{
    struct buffer OWNED_BUFFER bytes = BUFFER(POD_MESSAGE_MAX);
    union {
        struct cmsghdr aligned;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};

    for (size_t i = 0; i < count; i++) TRY(buffer_add(&bytes, texts[i], strlen(texts[i]) + 1, err));
    struct iovec piece = {.iov_base = bytes.data, .iov_len = bytes.length};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    if (pipes != NULL) {
        header.msg_control = control.space;
        header.msg_controllen = sizeof control.space;
        struct cmsghdr *part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(part), pipes, 2 * sizeof(int));
    }
    if (sendmsg(channel, &header, MSG_NOSIGNAL) == (ssize_t)bytes.length) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the other side of the pod has gone: %s", strerror(errno));
}

static void take_pipes(struct msghdr *header, struct pod_message *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part != NULL; part = CMSG_NXTHDR(header, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS && part->cmsg_len == CMSG_LEN(2 * sizeof(int)))
            memcpy(message->pipes, CMSG_DATA(part), 2 * sizeof(int));
}

static void drop_pipes(struct pod_message *message)
{
    for (size_t i = 0; i < 2; i++)
        if (message->pipes[i] >= 0) (void)close(message->pipes[i]);
    message->pipes[0] = message->pipes[1] = -1;
}

struct result pod_split(struct pod_message *message, size_t length, struct error *err)
{
    message->count = 0;
    if (length == 0 || message->bytes[length - 1] != '\0') return failure(err, ERROR_INVALID, "a message in the pod has no end");
    for (size_t at = 0; at < length; at += strlen(message->bytes + at) + 1) {
        if (message->count == POD_TEXTS_MAX) return failure(err, ERROR_INVALID, "a message in the pod has too many texts");
        message->texts[message->count++] = message->bytes + at;
    }
    message->texts[message->count] = NULL;
    return SUCCESS;
}

struct result pod_receive(int channel, struct pod_message *message, struct error *err)
{
    union {
        struct cmsghdr aligned;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec piece = {.iov_base = message->bytes, .iov_len = sizeof message->bytes};
    struct msghdr header = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    ssize_t length = 0;

    message->pipes[0] = message->pipes[1] = -1;
    while ((length = recvmsg(channel, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    message->is_end = length <= 0;
    message->count = 0;
    if (message->is_end) return SUCCESS;
    take_pipes(&header, message);
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 && pod_split(message, (size_t)length, err).ok) return SUCCESS;
    drop_pipes(message);
    return failure(err, ERROR_INVALID, "a message in the pod is malformed");
}

bool pod_is(const struct pod_message *message, const char *what, size_t least_count)
{
    return message->count >= least_count && message->count > 0 && strcmp(message->texts[0], what) == 0;
}
