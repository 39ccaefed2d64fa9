/*
 * The program of the images that tests make: linked statically, because such an image has no library. usage: image_program WORD ARGUMENT...
 *   ls PATH: its names, sorted by nothing; cat PATH; kind PATH: "file", "folder", "link TARGET", "device" or "other", and the mode; write PATH: tries to
 *   make or change the file, and says why it can't; keep PATH TEXT: writes the text; environment; id
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static int list(const char *path)
{
    DIR *folder = opendir(path);

    if (folder == NULL) return printf("none: %s\n", strerror(errno)) < 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        if (entry->d_name[0] != '.') (void)printf("%s\n", entry->d_name);
    return closedir(folder);
}

static int cat(const char *path)
{
    char piece[4096];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = 0;

    if (fd < 0) return printf("none: %s\n", strerror(errno)) < 0;
    while ((length = read(fd, piece, sizeof piece)) > 0)
        if (write(STDOUT_FILENO, piece, (size_t)length) != length) return 1;
    return close(fd);
}

static int kind(const char *path)
{
    char target[256] = "";
    struct stat about;

    if (lstat(path, &about) != 0) return printf("none: %s\n", strerror(errno)) < 0;
    if (S_ISLNK(about.st_mode)) (void)!readlink(path, target, sizeof target - 1);
    const char *name = S_ISREG(about.st_mode)   ? "file"
                       : S_ISDIR(about.st_mode) ? "folder"
                       : S_ISLNK(about.st_mode) ? "link"
                                                : "other";
    return printf("%s %o %s\n", S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode) ? "device" : name, about.st_mode & 07777,
                  target) < 0;
}

static int try_to_write(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0) return printf("refused: %s\n", strerror(errno)) < 0;
    (void)printf("written\n");
    return close(fd);
}

static int keep(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    return fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) != 0;
}

static int show_environment(void)
{
    for (char **variable = environ; *variable != NULL; variable++) (void)printf("%s\n", *variable);
    return 0;
}

static int act(const char *word, const char *path)
{
    if (strcmp(word, "ls") == 0) return list(path);
    if (strcmp(word, "cat") == 0) return cat(path);
    if (strcmp(word, "kind") == 0) return kind(path);
    if (strcmp(word, "write") == 0) return try_to_write(path);
    return 2;
}

int main(int argc, char **argv)
{
    int status = 0;

    if (argc == 2 && strcmp(argv[1], "environment") == 0) return show_environment();
    if (argc == 4 && strcmp(argv[1], "keep") == 0) return keep(argv[2], argv[3]);
    if (argc == 2 && strcmp(argv[1], "id") == 0) return printf("%u %u\n", (unsigned)getuid(), (unsigned)getgid()) < 0;
    for (int i = 2; i < argc && status == 0; i++) status = act(argv[1], argv[i]);
    return argc < 3 ? 2 : status;
}
