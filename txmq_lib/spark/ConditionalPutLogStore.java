package txmq;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.commons.io.IOUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on S3, where of two commits of one number one fails: the store itself refuses to put an entry in the place
 * of another (If-None-Match), as it does for deltalake. Delta's own S3SingleDriverLogStore overwrites what another
 * driver has put there.
 *
 * Compiled in the driver by log_store.py, which lets executors have it; Janino takes no type arguments.
 */
public class ConditionalPutLogStore extends io.delta.storage.HadoopFileSystemLogStore {

    public ConditionalPutLogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
        // Whole in memory first: whatever closes a stream in the middle would put half an entry.
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            content.write(((String) actions.next()).getBytes("UTF-8"));
            content.write('\n');
        }
        FileSystem store = path.getFileSystem(configuration);
        FSDataOutputStreamBuilder builder = store.createFile(path);
        builder.recursive();
        builder.overwrite(overwrite.booleanValue());
        if (!overwrite.booleanValue()) {
            builder.must("fs.option.create.conditional.overwrite", true);
        }
        FSDataOutputStream stream = (FSDataOutputStream) builder.build();
        stream.write(content.toByteArray());
        try {
            stream.close();
        } catch (IOException failure) {
            byte[] found = overwrite.booleanValue() ? null : contentOf(store, path);
            if (found == null) {
                throw failure;
            }
            // A put whose answer was lost is sent again, and refused because it was done.
            if (!Arrays.equals(found, content.toByteArray())) {
                throw new java.nio.file.FileAlreadyExistsException(path.toString());
            }
        }
    }

    public Iterator listFrom(Path path, Configuration configuration) throws IOException {
        FileSystem store = path.getFileSystem(configuration);
        FileStatus[] listed = io.delta.storage.internal.S3LogStoreUtil.s3ListFromArray(store, path, path.getParent());
        List found = new ArrayList();
        for (int place = 0; place < listed.length; place++) {
            // S3 lists what lies in directories below, too, and in the order of names.
            if (listed[place].getPath().getParent().getName().equals(path.getParent().getName())) {
                found.add(listed[place]);
            }
        }
        if (found.isEmpty() && !store.exists(path.getParent())) {
            throw new FileNotFoundException("No such file or directory: " + path.getParent());
        }
        return found.iterator();
    }

    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return Boolean.FALSE;
    }

    private static byte[] contentOf(FileSystem store, Path path) throws IOException {
        FSDataInputStream stream;
        try {
            stream = store.open(path);
        } catch (FileNotFoundException missing) {
            return null;
        }
        try {
            return IOUtils.toByteArray(stream);
        } finally {
            stream.close();
        }
    }
}
