package txmq;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on a file system, where of two commits of one number one fails: an entry gets its name by a hard link, which
 * is refused where the name is taken, as deltalake does it. Delta's own HDFSLogStore looks first and renames then, and on a
 * file system that renames over what another writer has put there in between.
 *
 * Compiled in the driver by log_store.py, which lets executors have it; Janino takes no type arguments.
 */
public class LinkLogStore extends io.delta.storage.HDFSLogStore {

    public LinkLogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, configuration);
            return;
        }
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            content.write(((String) actions.next()).getBytes("UTF-8"));
            content.write('\n');
        }
        java.nio.file.Path entry = new File(path.toUri().getPath()).toPath();
        java.nio.file.Path unnamed = entry.resolveSibling("." + entry.getFileName() + "." + UUID.randomUUID() + ".tmp");
        try {
            Files.write(unnamed, content.toByteArray(), new OpenOption[] {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE});
            link(entry, unnamed);
        } finally {
            Files.deleteIfExists(unnamed);
        }
    }

    private static void link(java.nio.file.Path entry, java.nio.file.Path unnamed) throws IOException {
        try {
            Files.createLink(entry, unnamed);
        } catch (FileAlreadyExistsException taken) {
            // Of a link whose answer was lost a server of files is asked again, and it was done.
            if (!Files.isSameFile(entry, unnamed)) {
                throw taken;
            }
        } catch (FileSystemException failure) {
            if (Files.exists(entry.getParent(), new java.nio.file.LinkOption[0])) {
                throw new IOException("no hard link could be made, by which one of two writers is refused: " + failure.getMessage(), failure);
            }
            throw failure;
        }
    }
}
